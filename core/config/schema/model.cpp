#include "core/config/schema_rows.h"

namespace trainyard {

std::vector<Row> model_rows() {
  return {
      row_of_preset("model.preset", "file of scenarios/models, without .toml, merged below"),
      row("model.layers", TRAINYARD_AT(model.layers), "transformer layers").within(1, 1e5).must(),
      row("model.hidden", TRAINYARD_AT(model.hidden), "width of the residual stream")
          .within(1, 1e7)
          .must(),
      row("model.heads", TRAINYARD_AT(model.heads), "attention heads").within(1, 1e6).must(),
      row("model.kv_heads", TRAINYARD_AT(model.kv_heads),
          "key and value heads (grouped-query attention); default: heads")
          .within(1, 1e6)
          .computed(),
      row("model.head_dim", TRAINYARD_AT(model.head_dim),
          "width of one head; default: hidden / heads")
          .within(1, 1e6)
          .computed(),
      row("model.ffn", TRAINYARD_AT(model.ffn),
          "width of the MLP after its activation; default: 4 x hidden, with swiglu to be given")
          .within(1, 1e8)
          .computed(),
      row("model.vocab", TRAINYARD_AT(model.vocab), "tokens of the vocabulary, before padding")
          .within(1, 1e9)
          .must(),
      row("model.window", TRAINYARD_AT(model.window),
          "sliding-window attention: keys a query sees; 0 = full causal attention")
          .within(0, 1e9),
      row("model.block", TRAINYARD_AT(model.block), "order of attention and MLP in a layer"),
      row("model.norm", TRAINYARD_AT(model.norm), "normalisation"),
      row("model.activation", TRAINYARD_AT(model.activation), "activation of the MLP"),
      row("model.position", TRAINYARD_AT(model.position), "position encoding"),
      row("model.attention", TRAINYARD_AT(model.attention), "how attention is computed"),
      row("model.tied", TRAINYARD_AT(model.tied),
          "the output projection shares the embedding table"),
      row("model.bias", TRAINYARD_AT(model.bias), "linear layers have biases"),
      row("model.dropout", TRAINYARD_AT(model.dropout), "probability of dropping, below 1")
          .within(0, 0.999),
  };
}

}  // namespace trainyard
