#include "schedulers/core/sha256.hpp"

#include <bit>

namespace troupe {
namespace {

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t mix(std::uint32_t x, int a, int b, int c) {
  return std::rotr(x, a) ^ std::rotr(x, b) ^ std::rotr(x, c);
}

std::uint32_t mix_shifted(std::uint32_t x, int a, int b, int shift) {
  return std::rotr(x, a) ^ std::rotr(x, b) ^ (x >> shift);
}

} // namespace

void Sha256::compress() noexcept {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) {
    w[t] = static_cast<std::uint32_t>(block_[4 * t]) << 24 |
           static_cast<std::uint32_t>(block_[4 * t + 1]) << 16 |
           static_cast<std::uint32_t>(block_[4 * t + 2]) << 8 | block_[4 * t + 3];
  }
  for (std::size_t t = 16; t < 64; ++t) {
    w[t] =
        mix_shifted(w[t - 2], 17, 19, 10) + w[t - 7] + mix_shifted(w[t - 15], 7, 18, 3) + w[t - 16];
  }
  std::array<std::uint32_t, 8> s = state_; // a to h of the standard.
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    const std::uint32_t first = s[7] + mix(s[4], 6, 11, 25) + choose + kRound[t] + w[t];
    const std::uint32_t second = mix(s[0], 2, 13, 22) + majority;
    s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i)
    state_[i] += s[i];
}

void Sha256::add_byte(std::uint8_t byte) noexcept {
  block_[filled_++] = byte;
  if (filled_ < block_.size()) return;
  compress();
  filled_ = 0;
}

void Sha256::add(std::span<const std::uint8_t> bytes) noexcept {
  bytes_ += bytes.size();
  for (const std::uint8_t byte : bytes)
    add_byte(byte);
}

void Sha256::add(std::string_view text) noexcept {
  bytes_ += text.size();
  for (const char c : text)
    add_byte(static_cast<std::uint8_t>(c));
}

void Sha256::add_le32(std::uint32_t value) noexcept {
  bytes_ += 4;
  for (int shift = 0; shift < 32; shift += 8)
    add_byte(static_cast<std::uint8_t>(value >> shift));
}

Sha256Digest Sha256::finish() noexcept {
  const std::uint64_t bits = bytes_ * 8;
  add_byte(0x80);
  while (filled_ != 56)
    add_byte(0);
  for (int shift = 56; shift >= 0; shift -= 8)
    add_byte(static_cast<std::uint8_t>(bits >> shift));
  Sha256Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

} // namespace troupe
