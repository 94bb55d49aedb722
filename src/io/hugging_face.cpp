#include "trireme/io/hugging_face.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "trireme/base/check.h"

namespace trireme {

namespace {

using Places = std::map<std::string, HfPlace>;

// Parameters of a block by our name without "block.N.", with the file's name without its "h.N.".
Places gpt2_block(std::int64_t hidden) {
  Places places{{"norm1.gain", {"ln_1.weight"}},
                {"norm1.bias", {"ln_1.bias"}},
                {"norm2.gain", {"ln_2.weight"}},
                {"norm2.bias", {"ln_2.bias"}},
                {"attn.out.weight", {"attn.c_proj.weight", true}},
                {"attn.out.bias", {"attn.c_proj.bias"}},
                {"mlp.up.weight", {"mlp.c_fc.weight", true}},
                {"mlp.up.bias", {"mlp.c_fc.bias"}},
                {"mlp.down.weight", {"mlp.c_proj.weight", true}},
                {"mlp.down.bias", {"mlp.c_proj.bias"}}};
  std::int64_t first = 0;
  for (const char* part : {"q", "k", "v"}) {
    places[std::string("attn.") + part + ".weight"] = {"attn.c_attn.weight", true, 0, first, 3};
    places[std::string("attn.") + part + ".bias"] = {"attn.c_attn.bias", false, first, 0, 3};
    first += hidden;
  }
  return places;
}

Places gpt2_ends() {
  return {{"embedding.token.weight", {"transformer.wte.weight", false, 0, 0, 1, HfRows::padded}},
          {"embedding.position.weight", {"transformer.wpe.weight", false, 0, 0, 1, HfRows::cut}},
          {"head.norm.gain", {"transformer.ln_f.weight"}},
          {"head.norm.bias", {"transformer.ln_f.bias"}},
          {"head.weight", {"lm_head.weight", false, 0, 0, 1, HfRows::padded}}};
}

Places llama_block() {
  Places places{{"norm1.gain", {"input_layernorm.weight"}},
                {"norm2.gain", {"post_attention_layernorm.weight"}},
                {"attn.q_norm.gain", {"self_attn.q_norm.weight"}},
                {"attn.k_norm.gain", {"self_attn.k_norm.weight"}}};
  const std::pair<const char*, const char*> linears[] = {
      {"attn.q", "self_attn.q_proj"},   {"attn.k", "self_attn.k_proj"}, {"attn.v", "self_attn.v_proj"},
      {"attn.out", "self_attn.o_proj"}, {"mlp.gate", "mlp.gate_proj"},  {"mlp.up", "mlp.up_proj"},
      {"mlp.down", "mlp.down_proj"}};
  for (const auto& [ours, theirs] : linears) {
    for (const char* kind : {".weight", ".bias"}) places[std::string(ours) + kind] = {std::string(theirs) + kind};
  }
  return places;
}

Places llama_ends() {
  return {{"embedding.token.weight", {"model.embed_tokens.weight", false, 0, 0, 1, HfRows::padded}},
          {"head.norm.gain", {"model.norm.weight"}},
          {"head.weight", {"lm_head.weight", false, 0, 0, 1, HfRows::padded}}};
}

Places neox_block(std::int64_t head_dim) {
  Places places;
  for (const auto& [ours, theirs] : {std::pair("norm1", "input_layernorm"), {"norm2", "post_attention_layernorm"}}) {
    places[std::string(ours) + ".gain"] = {std::string(theirs) + ".weight"};
    places[std::string(ours) + ".bias"] = {std::string(theirs) + ".bias"};
  }
  const std::pair<const char*, const char*> linears[] = {
      {"attn.out", "attention.dense"}, {"mlp.up", "mlp.dense_h_to_4h"}, {"mlp.down", "mlp.dense_4h_to_h"}};
  for (const char* kind : {".weight", ".bias"}) {
    for (const auto& [ours, theirs] : linears) places[std::string(ours) + kind] = {std::string(theirs) + kind};
    std::int64_t first = 0;
    for (const char* part : {"q", "k", "v"}) {
      HfPlace place{std::string("attention.query_key_value") + kind, false, first, 0, 3, HfRows::same, head_dim};
      places[std::string("attn.") + part + kind] = place;
      first += head_dim;
    }
  }
  return places;
}

Places neox_ends() {
  return {{"embedding.token.weight", {"gpt_neox.embed_in.weight", false, 0, 0, 1, HfRows::padded}},
          {"head.norm.gain", {"gpt_neox.final_layer_norm.weight"}},
          {"head.norm.bias", {"gpt_neox.final_layer_norm.bias"}},
          {"head.weight", {"embed_out.weight", false, 0, 0, 1, HfRows::padded}}};
}

Places ends_of(HfFamily family) {
  if (family == HfFamily::gpt2) return gpt2_ends();
  return family == HfFamily::llama ? llama_ends() : neox_ends();
}

Places block_of(HfFamily family, const HfSizes& sizes) {
  if (family == HfFamily::gpt2) return gpt2_block(sizes.hidden);
  return family == HfFamily::llama ? llama_block() : neox_block(sizes.head_dim);
}

const char* blocks_of(HfFamily family) {
  if (family == HfFamily::gpt2) return "transformer.h.";
  return family == HfFamily::llama ? "model.layers." : "gpt_neox.layers.";
}

// "block.12.attn.q.weight" to {"12", "attn.q.weight"}; nothing for parameters outside blocks.
std::optional<std::pair<std::string, std::string>> in_block(const std::string& parameter) {
  constexpr std::string_view k_block = "block.";
  const std::size_t dot = parameter.find('.', k_block.size());
  if (!parameter.starts_with(k_block) || dot == std::string::npos) return std::nullopt;
  return std::pair(parameter.substr(k_block.size(), dot - k_block.size()), parameter.substr(dot + 1));
}

std::optional<HfPlace> find(const Places& places, const std::string& name) {
  const auto found = places.find(name);
  return found == places.end() ? std::nullopt : std::optional(found->second);
}

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace

std::string hf_name_in(const HfFiles& files, const std::string& name) {
  for (const char* prefix : {"transformer.", "model.", "gpt_neox."}) {
    const std::size_t at = name.find(prefix);
    if (files.has(name) || at == std::string::npos) continue;
    const std::string bare = name.substr(0, at) + name.substr(at + std::string_view(prefix).size());
    if (files.has(bare)) return bare;
  }
  return name;
}

std::optional<HfPlace> hf_place(HfFamily family, const std::string& parameter, const HfSizes& sizes) {
  const auto block = in_block(parameter);
  if (!block) return find(ends_of(family), parameter);
  std::optional<HfPlace> place = find(block_of(family, sizes), block->second);
  if (place) place->name = blocks_of(family) + block->first + "." + place->name;
  return place;
}

std::optional<HfFamily> hf_family_of(const HfFiles& files) {
  const auto has = [&](const char* name) { return files.has(hf_name_in(files, name)); };
  if (has("transformer.h.0.attn.c_attn.weight")) return HfFamily::gpt2;
  if (has("model.layers.0.self_attn.q_proj.weight")) return HfFamily::llama;
  if (has("gpt_neox.layers.0.attention.query_key_value.weight")) return HfFamily::neox;
  return std::nullopt;
}

std::int64_t hf_rows_in(const HfFiles& files, const HfPlace& place, const Shape& global) {
  const std::string name = hf_name_in(files, place.name);
  const std::vector<std::int64_t>& found = files.at(name).shape;
  std::vector<std::int64_t> expected{global[0] * place.n_side_by_side};
  if (global.rank == 2) expected.push_back(global[1]);
  if (place.transposed) std::reverse(expected.begin(), expected.end());
  const bool same_rank = found.size() == expected.size();
  const bool more = same_rank && found[0] > expected[0], fewer = same_rank && found[0] < expected[0];
  const bool allowed = (place.rows == HfRows::padded && fewer) || (place.rows == HfRows::cut && more);
  const bool columns_agree = same_rank && std::equal(found.begin() + 1, found.end(), expected.begin() + 1);
  if (columns_agree && (found[0] == expected[0] || allowed))
    return std::min(global[0], place.rows == HfRows::same ? global[0] : found[0]);
  throw Error(Exit::data, files.path() + ": tensor \"" + name + "\" has the shape " + to_string(found) +
                              ", this model expects " + to_string(expected) +
                              "; check [model] of the deck against the model's config.json");
}

namespace {

// Rows of ours from a matrix whose rows are our columns.
void gather_columns(std::vector<double>& ours, const SafeTensor& tensor, const HfPlace& place, Range rows) {
  const std::int64_t row_length = tensor.shape[1],
                     n_columns = std::ssize(ours) / std::max<std::int64_t>(1, rows.count());
  for (std::int64_t c = 0; c < n_columns; ++c) {
    const std::int64_t first = (place.first_row + c) * row_length + place.first_column + rows.first;
    const std::vector<double> column = *values_of(tensor, {first, first + rows.count()});
    for (std::int64_t r = 0; r < rows.count(); ++r)
      ours[static_cast<std::size_t>(r * n_columns + c)] = column[static_cast<std::size_t>(r)];
  }
}

}  // namespace

std::vector<double> hf_values(const HfFiles& files, const HfPlace& place, const Shape& global, Range rows) {
  const std::string name = hf_name_in(files, place.name);
  const std::int64_t n_rows = hf_rows_in(files, place, global), n_columns = global.columns();
  const SafeTensor& tensor = files.at(name);
  if (!values_of(tensor, {0, 0})) files.values(name);  // throws: a type that holds no numbers
  std::vector<double> ours(static_cast<std::size_t>(rows.count() * n_columns));
  if (place.transposed) gather_columns(ours, tensor, place, rows);
  for (std::int64_t r = rows.first; !place.transposed && r < std::min(rows.last, n_rows); ++r) {
    const std::int64_t first = place.row_of(r) * n_columns;
    const std::vector<double> theirs = *values_of(tensor, {first, first + n_columns});
    std::copy(theirs.begin(), theirs.end(), ours.begin() + (r - rows.first) * n_columns);
  }
  return ours;
}

std::vector<double> hf_values(const HfFiles& files, const HfPlace& place, const Shape& global) {
  return hf_values(files, place, global, {0, global[0]});
}

}  // namespace trireme
