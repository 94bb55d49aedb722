#include "h5_hints.h"

#include <array>

#include "trireme/base/check.h"

namespace trireme {

namespace {

void check_io(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(Exit::data, what + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace

MpiHints::MpiHints(const Hints& hints) {
  if (hints.empty()) return;
  check_io(MPI_Info_create(&info_), "MPI_Info_create");
  for (const auto& [name, value] : hints) {
    check_io(MPI_Info_set(info_, name.c_str(), value.c_str()), "the MPI-IO hint " + name + " = " + value);
  }
}

MpiHints::~MpiHints() {
  if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
}

void create_with_hints(const std::string& path, const Hints& hints) {
  const MpiHints info(hints);
  MPI_File file = MPI_FILE_NULL;
  check_io(MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, info.get(), &file),
           path + ": cannot be created with the hints of [checkpoint]; check run.output");
  check_io(MPI_File_close(&file), path + ": closing the empty file");
}

}  // namespace trireme
