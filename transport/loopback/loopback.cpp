// One table of regions behind a reader-writer lock; transfers belong to their endpoint alone.

#include "transport/loopback/loopback.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

namespace troupe::transport {

namespace {

struct Region {
  std::string owner;
  std::span<const std::byte> bytes;
};

std::string number(RegionId region) { return std::to_string(static_cast<std::uint64_t>(region)); }

} // namespace

struct LoopbackHub::State {
  LoopbackOptions options;
  std::shared_mutex mutex;
  std::set<std::string> addresses;
  std::map<RegionId, Region> regions;
  /// Ids are never used again, so an old id can at worst find nothing.
  std::uint64_t next_region = 1;
};

/// The endpoint of one rank. Only the hub's tables are shared.
class LoopbackEndpoint final : public Transport {
public:
  LoopbackEndpoint(std::shared_ptr<LoopbackHub::State> hub, std::string address)
      : hub_(std::move(hub)), address_(std::move(address)) {}

  ~LoopbackEndpoint() override {
    const std::unique_lock lock(hub_->mutex);
    for (const RegionId region : mine_)
      hub_->regions.erase(region);
    hub_->addresses.erase(address_);
  }

  std::string address() const override { return address_; }

  Result<RegionId> register_region(std::span<const std::byte> bytes) override {
    const std::unique_lock lock(hub_->mutex);
    const RegionId region{hub_->next_region++};
    hub_->regions[region] = {address_, bytes};
    mine_.insert(region);
    return region;
  }

  void deregister_region(RegionId region) override {
    if (mine_.erase(region) == 0) return;
    const std::unique_lock lock(hub_->mutex);
    hub_->regions.erase(region);
  }

  Result<TransferId> submit(const std::string& peer, std::vector<ReadRequest> reads) override {
    for (const ReadRequest& read : reads) {
      if (read.offset < 0) {
        return Error{ErrorCode::bad_argument, "read of region " + number(read.region) +
                                                  " at offset " + std::to_string(read.offset) +
                                                  ", expected 0 or more"};
      }
    }
    const TransferId id{next_transfer_++};
    pending_.push_back({id, peer, std::move(reads), 0, 0});
    return id;
  }

  std::vector<Completion> poll() override {
    std::vector<Completion> completions = std::exchange(ended_, {});
    std::int64_t left_bytes = hub_->options.poll_bytes;
    while (!pending_.empty() && left_bytes > 0) {
      Transfer& transfer = pending_.front();
      Status status;
      bool done = false;
      while (status.ok() && !done && left_bytes > 0) {
        status = copy_piece(transfer, left_bytes, done);
      }
      if (status.ok() && !done) break;
      completions.push_back({transfer.id, std::move(status)});
      pending_.pop_front();
    }
    return completions;
  }

  void cancel(TransferId id) override {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Transfer& transfer) { return transfer.id == id; });
    if (found == pending_.end()) return;
    pending_.erase(found);
    ended_.push_back({id, {ErrorCode::cancelled, "the transfer was cancelled"}});
  }

private:
  struct Transfer {
    TransferId id{};
    std::string peer;
    std::vector<ReadRequest> reads;
    std::size_t read = 0;        ///< The request in work.
    std::int64_t done_bytes = 0; ///< Of that request.
  };

  /// Copies the next piece; `done` when nothing is left to copy.
  Status copy_piece(Transfer& transfer, std::int64_t& left_bytes, bool& done) {
    const std::shared_lock lock(hub_->mutex);
    if (hub_->addresses.count(transfer.peer) == 0) {
      return {ErrorCode::transfer_failed,
              "no endpoint at " + transfer.peer + "; is its rank gone?"};
    }
    if (transfer.read == transfer.reads.size()) {
      done = true;
      return {};
    }
    const ReadRequest& read = transfer.reads[transfer.read];
    const auto found = hub_->regions.find(read.region);
    if (found == hub_->regions.end() || found->second.owner != transfer.peer) {
      return {ErrorCode::transfer_failed, transfer.peer + " has no region " + number(read.region) +
                                              "; was it released before it was read?"};
    }
    const std::int64_t wanted = std::ssize(read.into);
    const std::int64_t held = std::ssize(found->second.bytes);
    if (read.offset > held || wanted > held - read.offset) {
      return {ErrorCode::transfer_failed, "read of " + std::to_string(wanted) +
                                              " bytes at offset " + std::to_string(read.offset) +
                                              " of region " + number(read.region) + ", which has " +
                                              std::to_string(held)};
    }
    const std::int64_t n = std::min(wanted - transfer.done_bytes,
                                    std::max<std::int64_t>(1, hub_->options.piece_bytes));
    if (n > 0) {
      std::memcpy(read.into.data() + transfer.done_bytes,
                  found->second.bytes.data() + read.offset + transfer.done_bytes,
                  static_cast<std::size_t>(n));
    }
    transfer.done_bytes += n;
    left_bytes -= n;
    if (transfer.done_bytes == wanted) {
      ++transfer.read;
      transfer.done_bytes = 0;
    }
    done = transfer.read == transfer.reads.size();
    return {};
  }

  std::shared_ptr<LoopbackHub::State> hub_;
  std::string address_;
  std::set<RegionId> mine_;
  std::deque<Transfer> pending_; ///< Served in the order of submission.
  std::vector<Completion> ended_;
  std::uint64_t next_transfer_ = 1;
};

LoopbackHub::LoopbackHub(const LoopbackOptions& options) : state_(std::make_shared<State>()) {
  state_->options = options;
}

LoopbackHub::~LoopbackHub() = default;

Result<std::unique_ptr<Transport>> LoopbackHub::open(const std::string& name) {
  std::string address = "loopback:" + name;
  const std::unique_lock lock(state_->mutex);
  if (name.empty() || !state_->addresses.insert(address).second) {
    return Error{ErrorCode::bad_argument,
                 "endpoint name '" + name + "' is empty or in use, expected a new one"};
  }
  return std::unique_ptr<Transport>(std::make_unique<LoopbackEndpoint>(state_, std::move(address)));
}

} // namespace troupe::transport
