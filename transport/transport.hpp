// Moves bulk bytes between ranks: knows regions and offsets, not tokens.
//
// The owner of memory registers it and hands the RegionId out in a control message; whoever wants
// the bytes submits a read into memory of its own and polls for completions. A completion says
// that bytes were copied, never that they are the right ones: digests decide that.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::transport {

enum class RegionId : std::uint64_t {};
enum class TransferId : std::uint64_t {};

/// Copies [offset, offset + into.size()) of a remote region into local memory.
struct ReadRequest {
  RegionId region{};
  std::int64_t offset = 0;   ///< Bytes.
  std::span<std::byte> into; ///< Owned by the caller until the completion is polled.
};

/// The one ending of a transfer.
struct Completion {
  TransferId transfer{};
  Status status;
};

/// One endpoint; every rank has its own.
///
///   Thread   an endpoint is used by its owner only; the peers' memory is read concurrently, so a
///            region must not be written between registration and deregistration
///   Errors   submit refuses what can be known at once; the rest is in the completion
class Transport {
public:
  virtual ~Transport() = default;

  /// Where peers reach this endpoint; travels in control messages.
  virtual std::string address() const = 0;

  /// @post the region can be read by peers until deregister_region
  virtual Result<RegionId> register_region(std::span<const std::byte> bytes) = 0;
  virtual void deregister_region(RegionId region) = 0;

  /// Starts reading from the endpoint at `peer`.
  virtual Result<TransferId> submit(const std::string& peer, std::vector<ReadRequest> reads) = 0;

  /// Completions since the last call; never blocks.
  virtual std::vector<Completion> poll() = 0;

  /// Gives up a transfer: its completion comes with ErrorCode::cancelled, or done if it was.
  virtual void cancel(TransferId transfer) = 0;
};

} // namespace troupe::transport
