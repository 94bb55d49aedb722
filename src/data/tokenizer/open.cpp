#include "byte_tokenizer.h"
#include "trireme/base/check.h"

namespace trireme {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const std::string& key) {
  if (path == "byte") return std::make_unique<ByteTokenizer>();
  throw Error(Exit::data, key + " = \"" + path + "\" is no tokenizer that this version reads; \"byte\" is");
}

}  // namespace trireme
