// The released full-size checkpoint as headers alone: 96,085 tensors in sparse files.

#pragma once

#include <string>

namespace troupe::test {

/// Writes configuration, index and shards of the published inventory; the data of the shards is a
/// hole, so that 510 GB take a few MB on the disk. There is no engram.json.
void write_released_inventory(const std::string& folder);

} // namespace troupe::test
