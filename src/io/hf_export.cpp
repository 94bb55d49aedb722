#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hf_arrays.h"
#include "trireme/base/check.h"
#include "trireme/deck/read.h"
#include "trireme/io/checkpoint.h"
#include "trireme/io/hf_convert.h"
#include "trireme/io/safetensors_writer.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

// What a tokenizer may consist of, and how the model is asked to speak.
constexpr const char* k_beside[] = {
    "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json", "vocab.json",         "merges.txt",
    "added_tokens.json", "tokenizer.model",       "generation_config.json",  "chat_template.jinja"};

ModelDeck model_of(const std::string& checkpoint) {
  const Attributes attributes = read_attributes(checkpoint);
  const auto text = attributes.find("deck");
  if (text == attributes.end())
    throw Error(Exit::data, checkpoint + " has no attribute \"deck\", so nothing says what model it holds");
  return parse_deck({{checkpoint + " (deck)", text->second}}, {}, 0).model;
}

struct Source {
  DType dtype = DType::f32;
  std::string prefix = "/param/";
};

// The arrays to take the weights from: fp32 is in the masters where they are kept apart and whole.
Source source_of(const std::string& checkpoint, const std::optional<DType>& wanted) {
  Source source;
  bool masters = false, found = false;
  for (const ArrayInfo& array : list_arrays(checkpoint)) {
    if (array.path.starts_with("/param/")) source.dtype = array.dtype;
    found = found || array.path.starts_with("/param/");
    masters = masters || (array.path.starts_with("/master/") && array.dtype == DType::f32);
  }
  if (!found) throw Error(Exit::data, checkpoint + " holds no weights (/param)");
  if (wanted == DType::f32 && masters) source.prefix = "/master/";
  return source;
}

fs::path new_folder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    throw Error(Exit::data, folder + " exists and is not an empty folder: name a new one");
  const fs::path part = fs::path(folder).lexically_normal().string() + ".part";
  fs::remove_all(part, error);
  fs::create_directories(part, error);
  if (error) throw Error(Exit::data, part.string() + " cannot be made: " + error.message());
  return part;
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(Exit::data, path.string() + " cannot be written: check the folder and its free space");
}

void take_over(HfModel& hf, const std::string& like, const fs::path& part) {
  const HfModel other = read_hf_config(like);
  if (other.family != hf.family)
    throw Error(Exit::data, like + " is a " + other.type + " model, the checkpoint becomes " + hf.type);
  hf.bos = other.bos;
  hf.eos = other.eos;
  if (hf.type != "gpt2") hf.model.sequence = std::max(hf.model.sequence, other.model.sequence);
  const bool renamed = hf.type == "llama" && other.type == "mistral";  // the same layers without a window
  if (renamed) hf.type = other.type;
  for (const char* name : k_beside) {
    std::error_code error;
    if (!fs::exists(fs::path(like) / name, error)) continue;
    fs::copy_file(fs::path(like) / name, part / name, fs::copy_options::overwrite_existing, error);
    if (error) throw Error(Exit::data, like + "/" + name + " cannot be copied: " + error.message());
  }
}

// Each tensor once: q, k and v of GPT-2 lie in one.
std::vector<NewTensor> tensors_of(const Model& model, HfFamily family, DType dtype) {
  std::vector<NewTensor> tensors;
  for (const ParamSpec& spec : model.table().all()) {
    const auto place = hf_place(family, spec.name, {model.deck().hidden, model.deck().head_dim});
    require(place.has_value(), "a parameter without a place in a Hugging Face model: " + spec.name);
    const bool known =
        std::any_of(tensors.begin(), tensors.end(), [&](const NewTensor& t) { return t.name == place->name; });
    if (!known) tensors.push_back({place->name, dtype, hf_shape(*place, spec)});
  }
  return tensors;
}

}  // namespace

Exported export_hf(const std::string& checkpoint, const std::string& folder, const ExportOptions& options) {
  const ModelDeck deck = model_of(checkpoint);
  const Model model(deck);
  Exported result;
  result.hf = hf_model_of(deck);
  const Source source = source_of(checkpoint, options.dtype);
  result.dtype = options.dtype.value_or(source.dtype);
  const fs::path part = new_folder(folder);
  if (!options.like.empty()) take_over(result.hf, options.like, part);
  SafetensorsWriter writer(part.string(), tensors_of(model, result.hf.family, result.dtype), options.piece_bytes);
  HfArrays arrays(model, result.hf.family, part.string(), source.dtype,
                  [&](const HfPlace& place, const ParamSpec&) { return writer.at(place.name); });
  for (Stored& array : arrays.arrays())
    if (source.prefix != "/param/") array.source = source.prefix + array.path.substr(std::string("/param/").size());
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<Communicator> alone = make_self_communicator(*backend);
  load_checkpoint(checkpoint, arrays.arrays(), *alone, *backend);
  arrays.transpose_to_tensors();
  writer.finish();
  result.n_files = writer.n_files();
  write_text(part / "config.json", hf_config_text(result.hf, result.dtype));
  std::error_code error;
  fs::rename(part, folder, error);
  if (error) throw Error(Exit::data, part.string() + " could not be renamed to " + folder + ": " + error.message());
  return result;
}

}  // namespace trireme
