// Bytes of a handoff record or of a sequence log → the struct that encodes to itself, or an error.

#include "actors/records/codec.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <span>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const std::string bytes(fuzz::text_of(data, size));
  if (const auto record = actors::decode_handoff(bytes); record.ok()) {
    const std::string encoded = actors::encode(*record);
    const auto again = actors::decode_handoff(encoded);
    fuzz::require(again.ok() && actors::encode(*again) == encoded, "a record goes there and back");
    fuzz::require(actors::digest_of(*again) == actors::digest_of(*record), "digests agree");
  }
  const auto log = actors::decode_sequence_log(std::as_bytes(std::span(bytes)));
  if (log.ok()) {
    const std::string encoded = actors::encode(*log);
    const auto again = actors::decode_sequence_log(std::as_bytes(std::span(encoded)));
    fuzz::require(again.ok() && actors::encode(*again) == encoded, "a log goes there and back");
  }
  return 0;
}
