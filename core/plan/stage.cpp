#include "core/plan/stage.h"

#include <map>
#include <utility>

#include "core/error.h"
#include "core/plan/chunk.h"
#include "core/plan/pipeline_order.h"
#include "core/plan/stage_ends.h"

namespace trainyard {
namespace {

class StageAssembler {
 public:
  StageAssembler(const Job& job, std::int32_t stage, Purpose purpose);
  Program run();

 private:
  struct Instance {
    const ChunkBodies* bodies = nullptr;
    std::uint32_t base = 0;  // number of its first local buffer
  };

  void emit_chunks(const std::vector<Unit>& units);
  void number_buffers();
  void stamp(const PassBody& body, const Pass& pass, std::uint32_t base);
  void stamp_pass(const Pass& pass);
  void coupled_transfers(const Unit* done, const Unit* next);
  void decoupled_receives(const Unit& unit, std::uint32_t after);
  void decoupled_sends(const Unit& unit);
  void add_transfer(const Pass& pass, bool sending, Stream stream);
  bool has_transfer(const Pass& pass, bool sending) const;
  const Instance& instance(const Pass& pass) const {
    return instances_[pass.chunk * micro_batches_ + pass.micro_batch];
  }

  std::vector<Unit> units() const;

  const Job& job_;
  std::int32_t stage_;
  Purpose purpose_;
  std::int64_t micro_batches_;
  Dims dims_;
  Program program_;
  Emitter emitter_;
  std::vector<ChunkShape> shapes_;
  StageParameters parameters_;
  SyncEmitter sync_;
  StageEnds ends_;
  std::map<std::pair<std::int32_t, int>, ChunkBodies> bodies_;  // by chunk and role
  std::vector<Instance> instances_;                             // by chunk and micro-batch
  std::vector<bool> gathered_;                                  // by chunk
  std::uint32_t last_kernel_ = kNone;
  std::uint32_t barrier_ = kNone;  // a transfer that the next kernel must not pass
};

StageAssembler::StageAssembler(const Job& job, std::int32_t stage, Purpose purpose)
    : job_(job),
      stage_(stage),
      purpose_(purpose),
      micro_batches_(job.micro_batches()),
      dims_(job),
      emitter_(program_),
      shapes_(stage_chunks(job, stage)),
      parameters_(stage_parameters(emitter_, dims_, shapes_)),
      sync_(emitter_, dims_, job.model.tied && job.parallel.pipeline > 1),
      ends_({emitter_, dims_, sync_}, job, parameters_, shapes_),
      gathered_(shapes_.size(), false) {
  program_.stage = stage;
  program_.trains = purpose == Purpose::training;
}

int role_index(Role role) { return (role.first ? 1 : 0) + (role.last ? 2 : 0); }

// A body per chunk and role, and an instance per chunk and micro-batch.
void StageAssembler::emit_chunks(const std::vector<Unit>& units) {
  instances_.resize(shapes_.size() * micro_batches_);
  std::vector<std::vector<std::int32_t>> order(shapes_.size());
  const PassKind last = program_.trains ? PassKind::backward : PassKind::forward;
  for (const Unit& unit : units)
    for (const Pass& pass : unit)
      if (pass.kind == last) order[pass.chunk].push_back(pass.micro_batch);
  ChunkEmitter chunk_emitter(emitter_, dims_, parameters_, ends_.buffers(), sync_);
  for (std::size_t c = 0; c < shapes_.size(); ++c) {
    for (const std::int32_t mb : order[c]) {
      const Role role{mb == order[c].front(), mb == order[c].back()};
      const std::pair key{static_cast<std::int32_t>(c), role_index(role)};
      auto found = bodies_.find(key);
      if (found == bodies_.end())
        found =
            bodies_
                .emplace(key, chunk_emitter.emit(key.first, shapes_[c], role, micro_batches_ == 1))
                .first;
      instances_[c * micro_batches_ + mb].bodies = &found->second;
    }
  }
}

// Local buffers of every instance get their numbers behind the stage's own.
void StageAssembler::number_buffers() {
  std::size_t total = program_.buffers.size();
  for (const Instance& i : instances_) total += i.bodies->locals.size();
  check(total < kLocal, "{} buffers in one program", total);
  program_.buffers.reserve(total);
  for (Instance& i : instances_) {
    i.base = static_cast<std::uint32_t>(program_.buffers.size());
    for (BufferSpec spec : i.bodies->locals) {
      if (spec.parent != kNone && (spec.parent & kLocal) != 0)
        spec.parent = i.base + (spec.parent & ~kLocal);
      program_.buffers.push_back(spec);
    }
  }
}

void StageAssembler::stamp(const PassBody& body, const Pass& pass, std::uint32_t base) {
  const auto first = static_cast<std::uint32_t>(program_.code.size());
  const auto first_operand = static_cast<std::uint32_t>(program_.operands.size());
  const auto pass_index = static_cast<std::uint32_t>(program_.passes.size());
  program_.passes.push_back(pass);
  const std::uint32_t previous = last_kernel_;
  for (Instr instr : body.code) {
    instr.first_operand += first_operand;
    instr.pass = pass_index;
    for (std::uint32_t& wait : instr.waits)
      wait = wait == kPrevious ? previous : wait == kNone ? kNone : wait + first;
    if (instr.stream == Stream::compute) {
      last_kernel_ = static_cast<std::uint32_t>(program_.code.size());
      if (barrier_ != kNone) instr.waits[0] = std::exchange(barrier_, kNone);
    }
    program_.code.push_back(instr);
  }
  for (Operand operand : body.operands) {
    if ((operand.buffer & kLocal) != 0) operand.buffer = base + (operand.buffer & ~kLocal);
    program_.operands.push_back(operand);
  }
}

void StageAssembler::stamp_pass(const Pass& pass) {
  const Instance& i = instance(pass);
  if (pass.kind == PassKind::forward && !gathered_[pass.chunk]) {
    gathered_[pass.chunk] = true;
    const PassBody gather = ends_.gather_before_forward(pass.chunk);
    if (!gather.code.empty()) stamp(gather, {PassKind::setup, pass.chunk, 0}, 0);
  }
  const PassBody& body = pass.kind == PassKind::forward    ? i.bodies->forward
                         : pass.kind == PassKind::backward ? i.bodies->backward
                                                           : i.bodies->weight_grad;
  // A chunk of the embedding alone has no weight gradients to put off.
  if (pass.kind != PassKind::weight_grad || !body.code.empty()) stamp(body, pass, i.base);
}

bool StageAssembler::has_transfer(const Pass& pass, bool sending) const {
  const ChunkBodies& b = *instance(pass).bodies;
  switch (pass.kind) {
    case PassKind::forward:
      return (sending ? b.output : b.input) != kNone;
    case PassKind::backward:
      return (sending ? b.input_grad : b.output_grad) != kNone;
    default:
      return false;
  }
}

// The message that `pass` needs before it starts, or leaves when it has ended. Tags tell apart
// direction, receiving chunk and micro-batch, so that two stages may be neighbours both ways.
void StageAssembler::add_transfer(const Pass& pass, bool sending, Stream stream) {
  const ChunkBodies& b = *instance(pass).bodies;
  const bool forward = pass.kind == PassKind::forward;
  const std::uint32_t local =
      forward ? (sending ? b.output : b.input) : (sending ? b.input_grad : b.output_grad);
  const std::int64_t chunk = pass.chunk * job_.parallel.pipeline + stage_;
  const std::int64_t receiver = sending ? chunk + (forward ? 1 : -1) : chunk;
  const std::int64_t tag =
      ((forward ? 0 : 1) * job_.chunks() + receiver) * micro_batches_ + pass.micro_batch;
  check(tag < kNone, "transfer tag {} does not fit", tag);
  const std::uint32_t buffer = instance(pass).base + (local & ~kLocal);
  Instr instr;
  instr.op = sending ? Op::send : Op::recv;
  instr.stream = stream;
  instr.group = Group::pipeline;
  instr.peer = static_cast<std::int16_t>(sending == forward ? 1 : -1);
  instr.what = static_cast<std::uint32_t>(tag);
  instr.bytes = program_.buffer_size(buffer);
  instr.operands = 1;
  instr.first_operand = static_cast<std::uint32_t>(program_.operands.size());
  instr.pass = static_cast<std::uint32_t>(program_.passes.size()) - 1;
  program_.operands.push_back(
      {buffer, static_cast<std::uint32_t>(sending ? Access::read : Access::write)});
  program_.code.push_back(instr);
}

// Megatron-LM without overlap: what a unit leaves and what the next needs travel as one group,
// after all that was computed and before all that will be.
void StageAssembler::coupled_transfers(const Unit* done, const Unit* next) {
  const auto first = program_.code.size();
  if (done != nullptr)
    for (const Pass& pass : *done)
      if (has_transfer(pass, true)) add_transfer(pass, true, Stream::forward_in);
  if (next != nullptr)
    for (const Pass& pass : *next)
      if (has_transfer(pass, false)) add_transfer(pass, false, Stream::forward_in);
  for (auto i = first; i < program_.code.size(); ++i) {
    program_.code[i].waits[0] = last_kernel_;
    if (i + 1 < program_.code.size()) program_.code[i].flags |= kGroupedWithNext;
  }
  if (program_.code.size() > first) barrier_ = static_cast<std::uint32_t>(program_.code.size() - 1);
}

void StageAssembler::decoupled_receives(const Unit& unit, std::uint32_t after) {
  for (const Pass& pass : unit) {
    if (!has_transfer(pass, false)) continue;
    add_transfer(pass, false,
                 pass.kind == PassKind::forward ? Stream::forward_in : Stream::backward_in);
    program_.code.back().waits[0] = after;
  }
}

void StageAssembler::decoupled_sends(const Unit& unit) {
  for (const Pass& pass : unit)
    if (has_transfer(pass, true))
      add_transfer(pass, true,
                   pass.kind == PassKind::forward ? Stream::forward_out : Stream::backward_out);
}

// An evaluation keeps the order of the forward passes.
std::vector<Unit> StageAssembler::units() const {
  std::vector<Unit> all = pipeline_order({job_.schedule.pipeline, job_.parallel.pipeline,
                                          job_.parallel.virtual_stages, micro_batches_},
                                         stage_);
  if (purpose_ == Purpose::training) return all;
  for (Unit& unit : all)
    std::erase_if(unit, [](const Pass& pass) { return pass.kind != PassKind::forward; });
  std::erase_if(all, [](const Unit& unit) { return unit.empty(); });
  return all;
}

Program StageAssembler::run() {
  const std::vector<Unit> units = this->units();
  const PassBody setup = ends_.setup(purpose_);
  emit_chunks(units);
  const PassBody finish =
      purpose_ == Purpose::training ? ends_.finish() : ends_.finish_evaluation();
  number_buffers();

  stamp(setup, {PassKind::setup, 0, 0}, 0);
  const bool decoupled = job_.schedule.overlap.pipeline;
  if (decoupled)
    decoupled_receives(units.front(), last_kernel_);
  else
    coupled_transfers(nullptr, &units.front());
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Unit* next = u + 1 < units.size() ? &units[u + 1] : nullptr;
    if (decoupled && next != nullptr) decoupled_receives(*next, last_kernel_);
    for (const Pass& pass : units[u]) stamp_pass(pass);
    if (decoupled)
      decoupled_sends(units[u]);
    else
      coupled_transfers(&units[u], next);
  }
  stamp(finish, {PassKind::optimizer, 0, 0}, 0);
  return std::move(program_);
}

}  // namespace

Program assemble_stage(const Job& job, std::int32_t stage, Purpose purpose) {
  return StageAssembler(job, stage, purpose).run();
}

}  // namespace trainyard
