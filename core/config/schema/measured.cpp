#include <fmt/ranges.h>

#include <algorithm>

#include "core/config/schema_rows.h"
#include "core/program/program.h"

namespace trainyard {
namespace {

// The item of `items` that is called `name` in its member `name_of`, appended if it is new.
template <class Item>
Item& item_of(std::vector<Item>& items, std::string Item::*name_of, const std::string& name) {
  for (Item& item : items)
    if (item.*name_of == name) return item;
  items.emplace_back().*name_of = name;
  return items.back();
}

void refuse_unless(bool known, const std::string& name, const char* what, const Value& value,
                   const std::string& valid) {
  if (!known)
    throw BadValue(value, fmt::format("there is no {} \"{}\"; valid: {}", what, name, valid));
}

GpuProfile::MeasuredKernel& kernel_of(Job& job, const std::string& name, const Value& value) {
  const std::vector<std::string> names = cost_names();
  refuse_unless(std::ranges::find(names, name) != names.end(), name, "measured kernel", value,
                fmt::format("{}", fmt::join(names, ", ")));
  return item_of(job.cluster.gpu.measured_kernels, &GpuProfile::MeasuredKernel::name, name);
}

// send stands for both sides of a message; all_to_all is in no program yet.
MeasuredCall& call_of(Job& job, const std::string& name, const Value& value) {
  std::string valid;
  bool known = false;
  for (const Op op :
       {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast, Op::send}) {
    known = known || op_name(op) == name;
    valid += fmt::format("{}{}", valid.empty() ? "" : ", ", op_name(op));
  }
  refuse_unless(known, name, "measured call", value, valid);
  return item_of(job.cluster.measured_calls, &MeasuredCall::op, name);
}

// A row of a section that the file names. `of` finds its item in the job, `member` is the item's.
template <class Item, class Member>
Row measured_row(const char* section, const char* key, Member Item::*member,
                 Item& (*of)(Job&, const std::string&, const Value&), std::string doc) {
  Row out;
  out.key = fmt::format("{}.*.{}", section, key);
  out.doc = std::move(doc);
  out.type = std::is_same_v<Member, double> ? "number" : "list of numbers";
  out.assign = [member, of](const Row& self, const Value& value, const std::string& name,
                            Job& job) { read_member(self, value, of(job, name, value).*member); };
  out.show = [member](const Row& self, const Job&) { return show_member(self, Item{}.*member); };
  return std::move(out).at_least(0);
}

std::vector<Row> kernel_rows() {
  using Kernel = GpuProfile::MeasuredKernel;
  const char* const section = "cluster.gpu.measured_kernels";
  return {
      row("cluster.gpu.measured_threads", TRAINYARD_AT(cluster.gpu.measured_threads),
          "threads of a rank's kernels for which measured_kernels have a number each, rising")
          .within(1, 4096),
      measured_row(section, "t0_us", &Kernel::t0_us, kernel_of,
                   "fixed time of such a kernel in T = t0 + flops * flop + bytes * byte"),
      measured_row(section, "flop_ps", &Kernel::flop_ps, kernel_of, "further time of a FLOP"),
      measured_row(section, "byte_ps", &Kernel::byte_ps, kernel_of,
                   "further time of a byte read or written"),
  };
}

}  // namespace

std::vector<Row> measured_profile_rows() {
  std::vector<Row> rows = kernel_rows();
  const auto call = [&rows](const char* key, double MeasuredCall::*member, const char* doc) {
    rows.push_back(measured_row("cluster.measured_calls", key, member, call_of, doc));
  };
  call("work_us", &MeasuredCall::work_us,
       "processor time of a rank for this collective or message, before it waits for the others");
  call("work_peer_us", &MeasuredCall::work_peer_us, "further processor time for each other rank");
  call("work_byte_ns", &MeasuredCall::work_byte_ns,
       "further processor time for each byte the rank receives");
  call("wait_us", &MeasuredCall::wait_us,
       "time that passes without use of a processor once all ranks are ready");
  call("wait_peer_us", &MeasuredCall::wait_peer_us, "further such time for each other rank");
  call("wait_byte_ns", &MeasuredCall::wait_byte_ns,
       "further such time for each byte a rank receives");
  return rows;
}

}  // namespace trainyard
