#include <algorithm>
#include <map>

#include "hf_arrays.h"
#include "trireme/base/check.h"
#include "trireme/deck/read.h"
#include "trireme/io/checkpoint.h"
#include "trireme/io/hf_convert.h"

namespace trireme {

namespace {

bool is_weight(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

std::string name_of_compute(DType dtype) {
  if (dtype == DType::f64) return "fp64";
  if (dtype == DType::f32) return "fp32";
  return dtype == DType::bf16 ? "bf16" : "fp16";
}

// The type that most elements have.
DType usual_dtype(const HfFiles& files) {
  std::map<DType, std::int64_t> counts;
  for (const std::string& name : files.names()) counts[files.at(name).dtype] += files.at(name).count();
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) throw Error(Exit::data, files.path() + " holds no tensors");
  if (!is_weight(most->first))
    throw Error(Exit::data, files.path() + " holds weights in " + name_of(most->first) +
                                "; convert them to bf16, fp16 or fp32 with the tool that made them");
  return most->first;
}

// Tables that models carry along and every program computes, and the copy of a tied head.
bool needs_no_place(const std::string& name, bool tied) {
  for (const char* end :
       {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"}) {
    if (name.ends_with(end)) return true;
  }
  return tied && (name == "lm_head.weight" || name == "embed_out.weight");
}

void refuse_leftovers(const HfFiles& files, const std::vector<std::string>& used, bool tied) {
  std::string left;
  int n = 0;
  for (const std::string& name : files.names()) {
    if (std::find(used.begin(), used.end(), name) != used.end() || needs_no_place(name, tied)) continue;
    if (++n <= 5) left += "\n  " + name;
  }
  if (n == 0) return;
  throw Error(Exit::data, files.path() + " holds " + std::to_string(n) +
                              " tensors that have no place in the model of its config.json:" + left +
                              (n > 5 ? "\n  ..." : ""));
}

Tensor as_tensor(const SafeTensor& tensor) {
  const std::vector<std::int64_t>& s = tensor.shape;
  return {const_cast<std::byte*>(tensor.data), tensor.dtype, s.size() == 1 ? Shape{s[0]} : Shape{s[0], s[1]}};
}

Deck deck_of(const HfModel& hf, DType dtype) {
  Deck deck;
  deck.run.name = hf.type;
  deck.model = hf.model;
  deck.precision.compute = name_of_compute(dtype);
  deck.data.source = "mock";  // a complete deck names some data; it is not part of the model
  deck.data.eod = hf.eos.value_or(-1) < hf.model.vocab ? hf.eos.value_or(-1) : -1;
  return parse_deck({{"the imported model", print_deck(deck)}}, {}, 0);
}

}  // namespace

Imported import_hf(const std::string& folder, const std::string& checkpoint) {
  Imported result;
  result.hf = read_hf_config(folder);
  const HfFiles files(folder);
  result.dtype = usual_dtype(files);
  result.deck = deck_of(result.hf, result.dtype);
  const Model model(result.deck.model);
  result.n_elements = model.table().n_elements();
  std::vector<std::string> used;
  const std::size_t slash = checkpoint.rfind('/');
  const HfArrays arrays(model, result.hf.family, slash == std::string::npos ? "." : checkpoint.substr(0, slash),
                        result.dtype, [&](const HfPlace& place, const ParamSpec& spec) {
                          hf_rows_in(files, place, spec.shape);  // throws when the shapes do not fit
                          used.push_back(hf_name_in(files, place.name));
                          const SafeTensor& tensor = files.at(used.back());
                          if (!is_weight(tensor.dtype)) files.values(used.back());  // throws
                          const std::vector<std::int64_t> expected = hf_shape(place, spec);
                          if (place.rows != HfRows::cut && tensor.shape != expected)
                            throw Error(Exit::data, folder + ": tensor \"" + used.back() + "\" has " +
                                                        std::to_string(tensor.shape[0]) + " rows, config.json says " +
                                                        std::to_string(expected[0]));
                          return as_tensor(tensor);
                        });
  refuse_leftovers(files, used, result.deck.model.tie_embeddings);
  arrays.transpose_from_tensors();
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<Communicator> alone = make_self_communicator(*backend);
  Attributes attributes = {{"deck", print_deck(result.deck)},
                           {"imported_from", folder},
                           {"step", "0"},
                           {"updates", "0"},
                           {"samples", "0"},
                           {"tokens", "0"}};
  save_checkpoint(checkpoint, arrays.arrays(), attributes, *alone, *backend, {});
  return result;
}

}  // namespace trireme
