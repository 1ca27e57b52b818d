#include "backends/common/kernel_contexts.h"

#include <algorithm>

#include "core/error.h"
#include "core/plan/dims.h"
#include "core/plan/parameter_layout.h"

namespace trainyard {
namespace {

// Biases and norms are not decayed (Loshchilov and Hutter's rule as GPT-3 and Llama apply it).
bool decays(std::string_view tensor) {
  return tensor.find("norm") == std::string_view::npos && !tensor.ends_with("bias");
}

// The bucket that a flat buffer such as "chunk0.grads" belongs to.
std::string_view bucket_of(std::string_view buffer) { return buffer.substr(0, buffer.rfind('.')); }

bool works_on_bucket(KernelKind kind) { return kernel_info(kind).cost == CostClass::optimizer; }

}  // namespace

KernelContexts::KernelContexts(const Job& job, RankId rank)
    : micro_sequences_(job.batch.micro_sequences) {
  const Dims dims(job);
  const Mesh mesh = job.mesh();
  const Coord coord = mesh.coord(rank);
  const std::int64_t rows = job.micro_batches() * micro_sequences_;
  first_sample_ = coord[Axis::data] * rows;
  base_.seed = job.seed;
  base_.tokens = dims.tokens;
  base_.sequence = dims.sequence;
  base_.tensor_rank = coord[Axis::tensor];
  base_.tensor_size = dims.tensor;
  base_.context_rank = coord[Axis::context];
  base_.context_size = dims.context;
  base_.parts = dims.parts;
  base_.vocab = job.model.vocab;
  base_.beta1 = job.optimization.beta1;
  base_.beta2 = job.optimization.beta2;
  base_.epsilon = job.optimization.epsilon;
  base_.weight_decay = job.optimization.weight_decay;

  for (const BucketLayout& bucket :
       bucket_layouts(job, coord[Axis::pipeline], coord[Axis::tensor])) {
    const std::int64_t first = dims.zero > 0 ? mesh.replica(coord) * bucket.stepped : 0;
    std::vector<FlatTensor>& tensors = tensors_[bucket.name];
    for (const HeldTensor& t : bucket.tensors) {
      const std::int64_t from = std::clamp(t.offset - first, std::int64_t{0}, bucket.stepped);
      const std::int64_t to =
          std::clamp(t.offset + t.elements - first, std::int64_t{0}, bucket.stepped);
      const bool counts = !t.replicated || coord[Axis::tensor] == 0;
      const bool copy = bucket.tied && coord[Axis::pipeline] > 0;
      tensors.push_back({from, to - from, counts && !copy, counts, decays(t.name)});
    }
  }
}

void KernelContexts::begin(const Program& program, const StepInputs& inputs) {
  program_ = &program;
  base_.step = inputs.step;
  base_.skip_update = false;
  base_.update = inputs.update;
  base_.learning_rate = inputs.learning_rate;
  base_.loss_weight =
      inputs.loss_scale / static_cast<double>(std::max<std::int64_t>(1, inputs.valid_tokens));
  base_.gradient_scale = 1 / inputs.loss_scale;
}

KernelContext KernelContexts::of(const Instr& instr) const {
  KernelContext context = base_;
  const KernelSpec& spec = program_->kernels[instr.what];
  if (works_on_bucket(spec.kind)) {
    const Operand& flat = program_->operands[instr.first_operand];
    const std::string& name = program_->buffer_types[program_->buffers[flat.buffer].type].name;
    const auto found = tensors_.find(bucket_of(name));
    check(found != tensors_.end(), "{} works on {}, which belongs to no bucket",
          kernel_info(spec.kind).name, name);
    context.tensors = found->second;
  } else {
    const Pass& pass = program_->passes[instr.pass];
    context.first_ids_row = pass.micro_batch * micro_sequences_;
    context.first_sample = first_sample_ + context.first_ids_row;
  }
  return context;
}

}  // namespace trainyard
