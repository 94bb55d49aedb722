#include "library_attention.h"

namespace trireme {

std::unique_ptr<LibraryAttention> make_library_attention(CudaBackend&) {
  return nullptr;
}

}  // namespace trireme
