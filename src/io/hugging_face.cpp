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

// The name as the file has it: whole models write a prefix that bare ones lack. Not found: the full name, for the
// message.
std::string name_in(const SafetensorsFile& file, const std::string& name) {
  for (const char* prefix : {"transformer.", "model."}) {
    const std::size_t at = name.find(prefix);
    if (file.has(name) || at == std::string::npos) continue;
    const std::string bare = name.substr(0, at) + name.substr(at + std::string_view(prefix).size());
    if (file.has(bare)) return bare;
  }
  return name;
}

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Rows of ours that the file holds; throws when the shapes do not fit.
std::int64_t rows_in_file(const SafetensorsFile& file, const std::string& name, const HfPlace& place,
                          const Shape& global) {
  const std::vector<std::int64_t>& found = file.at(name).shape;
  std::vector<std::int64_t> expected{global[0] * place.n_side_by_side};
  if (global.rank == 2) expected.push_back(global[1]);
  if (place.transposed) std::reverse(expected.begin(), expected.end());
  const bool same_rank = found.size() == expected.size();
  const bool more = same_rank && found[0] > expected[0], fewer = same_rank && found[0] < expected[0];
  const bool allowed = (place.rows == HfRows::padded && fewer) || (place.rows == HfRows::cut && more);
  const bool columns_agree = same_rank && std::equal(found.begin() + 1, found.end(), expected.begin() + 1);
  if (columns_agree && (found[0] == expected[0] || allowed))
    return std::min(global[0], place.transposed ? global[0] : found[0]);
  throw Error(Exit::data, file.path() + ": tensor \"" + name + "\" has the shape " + to_string(found) +
                              ", this model expects " + to_string(expected) +
                              "; check [model] of the deck against the model's config.json");
}

}  // namespace

std::optional<HfPlace> hf_place(HfFamily family, const std::string& parameter, std::int64_t hidden) {
  const bool gpt2 = family == HfFamily::gpt2;
  const auto block = in_block(parameter);
  if (!block) return find(gpt2 ? gpt2_ends() : llama_ends(), parameter);
  std::optional<HfPlace> place = find(gpt2 ? gpt2_block(hidden) : llama_block(), block->second);
  if (place) place->name = (gpt2 ? "transformer.h." : "model.layers.") + block->first + "." + place->name;
  return place;
}

std::optional<HfFamily> hf_family_of(const SafetensorsFile& file) {
  if (file.has(name_in(file, "transformer.h.0.attn.c_attn.weight"))) return HfFamily::gpt2;
  if (file.has(name_in(file, "model.layers.0.self_attn.q_proj.weight"))) return HfFamily::llama;
  return std::nullopt;
}

std::vector<double> hf_values(const SafetensorsFile& file, const HfPlace& place, const Shape& global) {
  require(global.rank == 1 || (global.rank == 2 && place.first_row == 0),
          "hf_values: a vector, or a matrix whose parts lie along its rows");
  const std::string name = name_in(file, place.name);
  const std::int64_t n_rows = rows_in_file(file, name, place, global), n_columns = global.columns();
  const std::vector<double> theirs = file.values(name);
  const std::vector<std::int64_t>& shape = file.at(name).shape;
  const std::int64_t row_length = shape.size() == 2 ? shape[1] : 1;
  std::vector<double> ours(static_cast<std::size_t>(global.count()));
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t c = 0; c < n_columns; ++c) {
      const std::int64_t row = place.first_row + (place.transposed ? c : r),
                         column = place.first_column + (place.transposed ? r : c);
      ours[static_cast<std::size_t>(r * n_columns + c)] = theirs[static_cast<std::size_t>(row * row_length + column)];
    }
  }
  return ours;
}

}  // namespace trireme
