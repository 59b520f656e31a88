// Bytes of a safetensors file → its header, or one message.

#include "engine/model/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const std::string path = fuzz::scratch_folder() + "/model.safetensors";
  fuzz::write_scratch(path, fuzz::text_of(data, size));
  const auto checkpoint = engine::Checkpoint::open(path);
  if (!checkpoint.ok()) {
    fuzz::require(checkpoint.error().message.starts_with(path), "a message names the file");
    return 0;
  }
  std::string before;
  for (const engine::TensorInfo& tensor : checkpoint->tensors()) {
    fuzz::require(before.empty() || before < tensor.name, "names ascend, none twice");
    before = tensor.name;
    const auto view = checkpoint->find(tensor.name);
    fuzz::require(view.ok(), "what is listed is found");
    std::int64_t bytes = engine::dtype_bytes(tensor.dtype);
    for (const std::int64_t n : tensor.shape)
      bytes *= n;
    fuzz::require(std::ssize(view->bytes) == bytes, "a view has the bytes of its shape");
    unsigned sum = 0;
    for (const std::byte byte : view->bytes)
      sum += std::to_integer<unsigned>(byte);
    fuzz::require(sum <= 255U * view->bytes.size(), "every byte can be read");
  }
  return 0;
}
