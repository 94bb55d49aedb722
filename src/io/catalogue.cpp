#include "catalogue.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint_file.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

using Json = nlohmann::json;

Json numbers(const Shape& shape) {
  return std::vector<std::int64_t>(shape.dim.begin(), shape.dim.begin() + shape.rank);
}

Shape shape_from(const Json& json) {
  Shape shape;
  for (const Json& size : json) shape[shape.rank++] = size.get<std::int64_t>();
  return shape;
}

// Finds places; opens the files of a virtual array once.
class Finder {
 public:
  Finder(const std::string& path, const H5File& file) : path_(path), file_(file) { files_.push_back(path); }

  CatalogueEntry entry(const std::string& name) {
    const H5Array array = file_.find_array(name);
    CatalogueEntry entry{name,
                         file_.text(array, k_checksum_name).value_or("none"),
                         file_.text(array, "hf_names").value_or(""),
                         {},
                         true};
    if (array.shape.empty() || array.shape.size() > entry.place.shape.dim.size()) {
      throw Error(Exit::data,
                  path_ + ": " + name + " has the shape " + shape_text(array.shape) + ", expected 1 to 4 dimensions");
    }
    entry.place.dtype = array.dtype;
    entry.place.shape.rank = static_cast<int>(array.shape.size());
    std::copy(array.shape.begin(), array.shape.end(), entry.place.shape.dim.begin());
    const std::vector<VirtualPart> parts = file_.virtual_parts(array);
    if (parts.empty()) {
      add_slab(entry, file_, array, {0, array.shape[0]}, 0);
    } else {
      for (const VirtualPart& part : parts) add_part(entry, part);
    }
    return entry;
  }

  std::vector<std::string> files() const { return files_; }

 private:
  void add_slab(CatalogueEntry& entry, const H5File& file, const H5Array& array, const Range& rows,
                std::int64_t number) {
    const std::optional<std::int64_t> address = file.address(array);
    if (!address) entry.in_place = false;
    entry.place.slabs.push_back({rows.first, rows.count(), number, address.value_or(0), file.chunk(array)});
  }

  void add_part(CatalogueEntry& entry, const VirtualPart& part) {
    const std::string path = (std::filesystem::path(path_).parent_path() / part.file).string();
    auto found = parts_.find(path);
    if (found == parts_.end()) {
      found = parts_.emplace(path, std::pair(H5File::open_alone(path), std::ssize(files_))).first;
      files_.push_back(path);
    }
    const H5File& file = found->second.first;
    const H5Array array = file.find_array(entry.path);
    std::vector<std::int64_t> expected(entry.place.shape.dim.begin(),
                                       entry.place.shape.dim.begin() + entry.place.shape.rank);
    expected[0] = part.rows.count();
    if (array.shape != expected || array.dtype != entry.place.dtype) {
      throw Error(Exit::data, path + ": " + entry.path + " has the shape " + shape_text(array.shape) + ", expected " +
                                  shape_text(expected) + " from " + path_);
    }
    add_slab(entry, file, array, part.rows, found->second.second);
  }

  const std::string& path_;
  const H5File& file_;
  std::vector<std::string> files_;
  std::map<std::string, std::pair<H5File, std::int64_t>> parts_;
};

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

const CatalogueEntry* Catalogue::find(const std::string& path) const {
  for (const CatalogueEntry& entry : entries) {
    if (entry.path == path) return &entry;
  }
  return nullptr;
}

std::string Catalogue::pack() const {
  Json all{{"files", files}, {"arrays", Json::array()}};
  for (const CatalogueEntry& entry : entries) {
    Json slabs = Json::array();
    for (const Slab& slab : entry.place.slabs)
      slabs.push_back({slab.first, slab.count, slab.file, slab.address, numbers(slab.chunk)});
    all["arrays"].push_back({entry.path, entry.checksum, entry.hf_names, static_cast<int>(entry.place.dtype),
                             numbers(entry.place.shape), slabs, entry.in_place});
  }
  return all.dump();
}

Catalogue Catalogue::unpack(const std::string& text) {
  const Json all = Json::parse(text);
  Catalogue catalogue{all["files"].get<std::vector<std::string>>(), {}};
  for (const Json& array : all["arrays"]) {
    CatalogueEntry entry{array[0], array[1], array[2], {}, array[6]};
    entry.place.dtype = static_cast<DType>(array[3].get<int>());
    entry.place.shape = shape_from(array[4]);
    for (const Json& slab : array[5]) {
      entry.place.slabs.push_back({slab[0], slab[1], slab[2], slab[3], shape_from(slab[4])});
    }
    catalogue.entries.push_back(std::move(entry));
  }
  return catalogue;
}

Catalogue read_catalogue(const std::string& path, const H5File& file, const std::vector<std::string>& wanted) {
  Catalogue catalogue;
  Finder finder(path, file);
  const std::vector<std::string> names = wanted.empty() ? file.array_paths() : wanted;
  for (const std::string& name : names) {
    if (catalogue.find(name) == nullptr && file.has(name)) catalogue.entries.push_back(finder.entry(name));
  }
  catalogue.files = finder.files();
  return catalogue;
}

}  // namespace trireme
