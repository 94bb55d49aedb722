#pragma once
// What rank 0 knows of a checkpoint's files and tells the others: every array with its shape, dtype, checksum and
// place. With it a rank finds its data without HDF5, and only one process reads metadata.

#include <optional>
#include <string>
#include <vector>

#include "h5.h"
#include "place.h"

namespace trireme {

struct CatalogueEntry {
  std::string path, checksum, hf_names;
  ArrayPlace place;
  bool in_place = true;  // false: HDF5 must be asked for the elements (filters, blocks in another order, ...)
};

struct Catalogue {
  std::vector<std::string> files;  // as the slabs number them
  std::vector<CatalogueEntry> entries;

  const CatalogueEntry* find(const std::string& path) const;  // nullptr: not there
  std::string pack() const;
  static Catalogue unpack(const std::string& text);
};

// One process. wanted: the arrays to look for (those that are absent are left out); all of the file when empty.
Catalogue read_catalogue(const std::string& path, const H5File& file, const std::vector<std::string>& wanted);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "[3, 4]", of any rank

}  // namespace trireme
