#!/usr/bin/env python3
"""Fails on a file above 500 lines, one above 300 without a reason in long_files.txt, a function
above 60 lines, and one with more than 5 parameters."""

import re
from pathlib import Path

from tree import files, report

HARD_LINES, SOFT_LINES, FUNCTION_LINES, PARAMETERS = 500, 300, 60, 5
# A constructor's head that ends inside its list of initializers: `A(int a) : b_(a), c_`.
INITIALIZER = re.compile(r"\)\s*:[^:].*[\w>]$", re.S)
# What tests/cuda_on_host stands in for has the parameters that its library gave it.
LIBRARY = re.compile(r"(cuda|cublas|cudnn|nccl)[A-Z]")
ACCESS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)*")
TEMPLATE = re.compile(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*")
TYPE_OR_SCOPE = re.compile(r"\b(namespace|class|struct|enum|union)\b|\bextern\s*\"")


def blank(code):
    """The code with comments, strings and preprocessor lines replaced by blanks, lines kept."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
        re.S | re.M,
    )
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def parameter_count(head):
    """Parameters between the first parentheses of a function's head."""
    depth, commas, body = 0, 0, ""
    for char in head[head.index("(") :]:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(char, 0)
        commas += char == "," and depth == 1
        body += char
        if depth == 0:
            break
    return commas + 1 if body[1:-1].strip() not in ("", "void") else 0


def functions(code):
    """Yields (name, first line, last line, parameters) of every function body in the code."""
    code = blank(code)
    scopes = []  # of each open brace: the function's (head, line), or None
    head_start = 0
    parentheses = 0
    for at, char in enumerate(code):
        if char in "()":
            parentheses += 1 if char == "(" else -1
        elif char == "{":
            head = ACCESS.sub("", code[head_start:at])
            line = code.count("\n", 0, at - len(head)) + 1
            head = TEMPLATE.sub("", head.strip())
            if INITIALIZER.search(head):
                parentheses += 1  # its braces are part of the head
                scopes.append("initializer")
                continue
            is_function = (
                not any(scopes) and parentheses == 0 and "(" in head
                and not TYPE_OR_SCOPE.search(head.split("(")[0])
                and "=" not in re.sub(r"operator\s*[=<>!+*/-]+|[<>=!]=", "", head.split("(")[0])
            )
            scopes.append((head, line) if is_function else None)
            if parentheses == 0:
                head_start = at + 1
        elif char == "}" and scopes:
            scope = scopes.pop()
            if scope == "initializer":
                parentheses -= 1
                continue
            if scope:
                head, line = scope
                name = head.split("(")[0].split()[-1:] or ["?"]
                yield name[0], line, code.count("\n", 0, at) + 1, parameter_count(head)
            if parentheses == 0:
                head_start = at + 1
        elif char == ";" and parentheses == 0:
            head_start = at + 1


def allowed_long(root):
    """Files of long_files.txt; each line is a path, a blank and a reason."""
    listing = Path(root) / "tests/house/long_files.txt"
    lines = listing.read_text().splitlines() if listing.exists() else []
    return {line.split()[0] for line in lines if len(line.split()) > 3}


def problems(root="."):
    found = []
    allowed = allowed_long(root)
    for path in files(root, ".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"):
        name = path.relative_to(root).as_posix()
        code = path.read_text()
        lines = code.count("\n")
        if lines > HARD_LINES:
            found.append(f"{name}: {lines} lines, at most {HARD_LINES}")
        elif lines > SOFT_LINES and name not in allowed:
            found.append(f"{name}: {lines} lines, above {SOFT_LINES} and not in long_files.txt")
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        for function, first, last, parameters in functions(code):
            if last - first + 1 > FUNCTION_LINES:
                found.append(f"{name}:{first}: {function} has {last - first + 1} lines, "
                             f"at most {FUNCTION_LINES}")
            if parameters > PARAMETERS and not LIBRARY.match(function):
                found.append(f"{name}:{first}: {function} has {parameters} parameters, "
                             f"at most {PARAMETERS}")
    return found


if __name__ == "__main__":
    report(problems())
