#include <iostream>
#include <nlohmann/json.hpp>

#include "arrays.h"
#include "commands.h"
#include "trireme/base/log.h"

namespace trireme::inspect {

namespace {

using Json = nlohmann::ordered_json;

Json as_json(const CheckpointReader& file) {
  Json all{{"attributes", file.attributes()}, {"arrays", Json::array()}};
  for (const ArrayInfo& array : file.arrays()) {
    all["arrays"].push_back({{"path", array.path},
                             {"dtype", name_of(array.dtype)},
                             {"shape", array.shape},
                             {"bytes", static_cast<std::int64_t>(bytes_of(array))},
                             {"blocks", array.chunk},
                             {"checksum", array.checksum},
                             {"hf_names", array.hf_names}});
  }
  return all;
}

void print_table(const CheckpointReader& file) {
  std::size_t width = 5, shapes = 5;
  for (const ArrayInfo& array : file.arrays()) {
    width = std::max(width, array.path.size());
    shapes = std::max(shapes, shape_text(array.shape).size());
  }
  const auto line = [&](const std::string& path, const std::string& dtype, const std::string& shape,
                        const std::string& bytes, const std::string& layout) {
    std::cout << format("%-*s  %-5s  %-*s  %12s  %s\n", static_cast<int>(width), path.c_str(), dtype.c_str(),
                        static_cast<int>(shapes), shape.c_str(), bytes.c_str(), layout.c_str());
  };
  line("array", "dtype", "shape", "size", "layout");
  double total = 0, elements = 0;
  for (const ArrayInfo& array : file.arrays()) {
    total += bytes_of(array);
    elements += array.path.starts_with("/param/") ? static_cast<double>(count_of(array)) : 0;
    line(array.path, name_of(array.dtype), shape_text(array.shape), bytes_text(bytes_of(array)),
         array.chunk.empty() ? "contiguous" : "blocks of " + shape_text(array.chunk));
  }
  std::cout << format("%zu arrays, %s parameters, %s\n", file.arrays().size(), count_text(elements).c_str(),
                      bytes_text(total).c_str());
}

}  // namespace

int list(const Words& words, const Options& options) {
  const CheckpointReader file(words[0]);
  if (options.json) return std::cout << as_json(file).dump(1) << "\n", 0;
  std::cout << words[0] << "\n";
  for (const auto& [name, value] : file.attributes()) {
    const bool long_one = value.find('\n') != std::string::npos;
    std::cout << format("  %-22s %s\n", name.c_str(), long_one ? "(text, see --json)" : value.c_str());
  }
  print_table(file);
  return 0;
}

}  // namespace trireme::inspect
