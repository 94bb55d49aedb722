#include "trireme/model/embedding.h"

#include "trireme/base/check.h"
#include "trireme/model/tensor_parallel.h"

namespace trireme {

std::int64_t padded_vocab(const ModelDeck& model) {
  return round_up(model.vocab, model.vocab_multiple);
}

Embedding::Embedding(ParamTable& table, const ModelDeck& model) {
  ParamSpec spec;
  spec.name = "embedding.token.weight";
  spec.shape = {padded_vocab(model), model.hidden};
  spec.cut = Cut::rows;
  spec.layer = model.tie_embeddings ? k_both_ends : k_first_layer;
  spec.init_std = model.init_std;
  spec.valid_rows = model.vocab;
  token_ = table.add(spec);
  if (model.position != "learned") return;
  spec = ParamSpec{};
  spec.name = "embedding.position.weight";
  spec.shape = {model.sequence, model.hidden};
  spec.layer = k_first_layer;
  spec.init_std = model.init_std;
  spec.partial = Partial::tokens;
  position_ = table.add(spec);
}

void Embedding::forward(Context& c, const MicroBatch& mb, Tensor y) const {
  const ArenaScope scope(c.scratch);
  const Param& token = c.params.at(token_);
  Leaving sum(c, y, mb.ids_T.rows());
  c.be.embed(sum.partial(), token.value, mb.ids_T, token.box.offset[0], Into::replace);
  sum.start();
  sum.wait();
  if (position_ >= 0) c.be.embed(y, c.params.at(position_).value, own_tokens(c, mb.position_T), 0, Into::add);
  if (c.dropout > 0) c.be.dropout_add(y, y, Tensor{}, Tensor{}, own_tokens(c, mb.row_T), c.dropout, key(c));
}

void Embedding::backward(Context& c, const MicroBatch& mb, Tensor dy) const {
  const ArenaScope scope(c.scratch);
  Tensor dx = dy;
  if (c.dropout > 0) {
    dx = c.scratch.take(c.compute, dy.shape);
    c.be.dropout_backward(dx, dy, own_tokens(c, mb.row_T), c.dropout, key(c));
  }
  Entered all(c, {dx, {}, {}});
  if (position_ >= 0) c.be.embed_backward(c.params.at(position_).grad, dx, own_tokens(c, mb.position_T), 0);
  const Param& token = c.params.at(token_);
  c.be.embed_backward(token.grad, all.wait().tensor, mb.ids_T, token.box.offset[0]);
}

}  // namespace trireme
