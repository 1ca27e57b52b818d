#!/usr/bin/env python3
"""Feeds every checker a bad example, which it must report, and a good one, which it must not."""

import tempfile
import unittest
from pathlib import Path

import folders
import formatting
import includes
import readme
import sizes


def tree(**contents):
    """A temporary source tree; keys are paths with __ for / and _dot_ for a dot."""
    root = tempfile.TemporaryDirectory()
    for key, text in contents.items():
        path = Path(root.name) / key.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


class CheckerTest(unittest.TestCase):
    def expect(self, checker, text, **contents):
        """`text` must be part of the one problem found; None: there must be none."""
        with tree(**contents) as root:
            found = checker.problems(root)
        if text is None:
            self.assertEqual(found, [])
        else:
            self.assertEqual(len(found), 1, found)
            self.assertIn(text, found[0])


class Includes(CheckerTest):
    def test_arrow(self):
        self.expect(includes, "core may not include simulator",
                    core__a_dot_h='#include "simulator/timing.h"\n')
        self.expect(includes, None, simulator__a_dot_h='#include "core/types.h"\n')

    def test_libraries_stay_in_their_folder(self):
        self.expect(includes, "belongs in tools", backends__a_dot_cpp="#include <CLI/CLI.hpp>\n")
        self.expect(includes, "belongs in backends/cuda or tests/cuda_on_host",
                    backends__common__a_dot_cpp="#include <nccl.h>\n")
        self.expect(includes, None, backends__cuda__a_dot_cpp="#include <cudnn.h>\n")
        self.expect(includes, "belongs in core/config",
                    core__plan__a_dot_cpp="#include <toml++/toml.h>\n")
        self.expect(includes, None, core__config__a_dot_cpp="#include <toml++/toml.h>\n")

    def test_core_has_no_thread_and_no_clock(self):
        self.expect(includes, "no thread", core__a_dot_cpp="#include <thread>\n")
        self.expect(includes, "no thread", core__a_dot_cpp="auto t = std::chrono::seconds(1);\n")
        self.expect(includes, None, tools__a_dot_cpp="#include <thread>\n")

    def test_include_is_written_from_the_root(self):
        self.expect(includes, "from the repository root", core__a_dot_cpp='#include "a.h"\n')


def function(lines, head="int f(int a)"):
    return head + " {\n" + "  a();\n" * (lines - 2) + "}\n"


class Sizes(CheckerTest):
    def test_function_length(self):
        self.expect(sizes, "f has 61 lines", core__a_dot_cpp=function(61))
        self.expect(sizes, None, core__a_dot_cpp=function(60))

    def test_braces_in_strings_and_comments_do_not_count(self):
        self.expect(sizes, "f has 61 lines", core__a_dot_cpp='char c = \'{\'; auto s = "}{{";  // {\n'
                    "/* { */ auto r = R\"x({{{)x\";\n#define X {\n" + function(61))

    def test_methods_constructors_operators_and_tests(self):
        for head in ("Mesh::Mesh(int a) : b_(a), c_{a}", "auto S::get() const -> int",
                     "bool operator==(const A& a)", "TEST(Sums, AddUp)", "void operator=(A a)",
                     "template <class T>\nrequires(sizeof(T) == 4) void g(T t)"):
            self.assertTrue(any("lines" in p for p in self.found(function(62, head))), head)
        inside = "namespace x {\nclass A {\n public:\n" + function(61) + "};\n}\n"
        self.assertIn("61 lines", self.found(inside)[0])

    def test_classes_and_tables_are_no_functions(self):
        self.expect(sizes, None, core__a_dot_h="struct A {\n" + "int f(int);\n" * 70 + "};\n"
                    "const std::array<A, 70> table = {\n" + "A(1),\n" * 70 + "};\n")

    def test_functions_after_each_other_are_counted_apart(self):
        self.expect(sizes, "g has 61 lines",
                    core__a_dot_cpp=function(59) + function(61, "void g()") + function(60))

    def test_parameters(self):
        self.expect(sizes, "6 parameters",
                    core__a_dot_cpp=function(3, "int f(int a, int b, int c, int d, int e, int g)"))
        self.expect(sizes, None, core__a_dot_cpp=function(3, "int f(std::map<int, int> a, B b = {1, 2})"))

    def test_file_length(self):
        self.expect(sizes, "501 lines", core__a_dot_h="int a;\n" * 501)
        self.expect(sizes, "not in long_files.txt", core__a_dot_h="int a;\n" * 301)
        self.expect(sizes, None, core__a_dot_h="int a;\n" * 301,
                    tests__house__long_files_dot_txt="core/a.h is one table of facts\n")
        self.expect(sizes, "not in long_files.txt", core__a_dot_h="int a;\n" * 301,
                    tests__house__long_files_dot_txt="core/a.h\n")

    def found(self, code):
        with tree(core__a_dot_cpp=code) as root:
            return sizes.problems(root)


class Formatting(CheckerTest):
    def test_format(self):
        style = "BasedOnStyle: Google\n"
        self.expect(formatting, "clang-format", core__a_dot_cpp="int   a ;\n",
                    **{"_dot_clang-format": style})
        self.expect(formatting, None, core__a_dot_cpp="int a;\n", **{"_dot_clang-format": style})


class Folders(CheckerTest):
    def test_missing_readme(self):
        self.expect(folders, "core/plan: has no README.md", core__README_dot_md="",
                    core__plan__a_dot_cpp="")

    def test_readme_names_each_file(self):
        self.expect(folders, "does not name gizmo.cpp", core__README_dot_md="about others",
                    core__gizmo_dot_cpp="")
        self.expect(folders, None, core__README_dot_md="gizmo does it", core__gizmo_dot_cpp="")


class Readme(CheckerTest):
    def test_output_differs(self):
        self.expect(readme, "printed instead", README_dot_md="```console\n$ echo 42\n41\n```\n")
        self.expect(readme, None, README_dot_md="```console\n$ echo 42\n42\n```\n")

    def test_missing_and_surplus_lines_are_caught(self):
        self.expect(readme, "printed instead", README_dot_md="```console\n$ seq 3\n1\n2\n```\n")
        self.expect(readme, "printed instead", README_dot_md="```console\n$ true\nyes\n```\n")

    def test_dots_stand_for_lines(self):
        self.expect(readme, None, README_dot_md="```console\n$ seq 9\n1\n...\n9\n```\n")
        self.expect(readme, "printed instead",
                    README_dot_md="```console\n$ seq 9\n1\n...\n8\n```\n")

    def test_second_command_and_folder_readmes_are_run(self):
        self.expect(readme, "`false x`",
                    core__README_dot_md="```console\n$ true\n$ false x\nno\n```\n")

    def test_tools_must_exist(self):
        self.expect(readme, "is not there", README_dot_md="```console\n$ ./tools/none\n```\n")

    def test_figures_in_the_text(self):
        self.expect(readme, "6.3 s", README_dot_md="It takes 6.3 s.\n")
        self.expect(readme, None, README_dot_md="It takes 6.3 s.\n```console\n$ echo 6.3 s\n6.3 s\n```\n")


if __name__ == "__main__":
    unittest.main()
