// Lists of equal structs as columns of a record: nothing for zeros, one value for equal rows.
//
// One list of fields serves both directions: `field` gives a reference into a row.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace troupe::actors {

/// a - b and a + b on the circle of 64 bits: any two times have a distance.
constexpr std::int64_t distance_us(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
constexpr std::int64_t moved_us(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Rows → columns. A column is a repeated field of a record.
template <class Row>
class ColumnWriter {
public:
  explicit ColumnWriter(std::span<const Row> rows) : rows_(rows) {}

  template <class Column, class Field>
  void operator()(Column* column, Field field) {
    put(column, [&](const Row& row) { return field(row); });
  }

  /// Times, written as what passed since then until `now_us`.
  template <class Column, class Field>
  void before(std::int64_t now_us, Column* column, Field field) {
    put(column, [&](const Row& row) { return distance_us(now_us, field(row)); });
  }

private:
  template <class Column, class Get>
  void put(Column* column, Get get) {
    using Value = std::remove_cvref_t<decltype(column->Get(0))>;
    if (rows_.empty()) return;
    const auto first = static_cast<Value>(get(rows_.front()));
    bool same = true;
    for (const Row& row : rows_)
      same = same && static_cast<Value>(get(row)) == first;
    if (same && first == Value{}) return;
    if (same) return column->Add(first);
    column->Reserve(static_cast<int>(rows_.size()));
    for (const Row& row : rows_)
      column->AddAlreadyReserved(static_cast<Value>(get(row)));
  }

  std::span<const Row> rows_;
};

/// Columns → rows, whose number is known.
template <class Row>
class ColumnReader {
public:
  explicit ColumnReader(std::vector<Row>& rows) : rows_(&rows) {}

  template <class Column, class Field>
  void operator()(const Column* column, Field field) {
    take(column, [&](Row& row, auto value) {
      using Target = std::remove_reference_t<decltype(field(row))>;
      field(row) = static_cast<Target>(value);
    });
  }

  template <class Column, class Field>
  void before(std::int64_t now_us, const Column* column, Field field) {
    take(column, [&](Row& row, auto value) { field(row) = distance_us(now_us, value); });
  }

  /// Whether every column had no, one, or as many values as there are rows.
  bool ok() const noexcept { return ok_; }

private:
  template <class Column, class Set>
  void take(const Column* column, Set set) {
    using Value = std::remove_cvref_t<decltype(column->Get(0))>;
    const auto size = static_cast<std::size_t>(column->size());
    if (size > 1 && size != rows_->size()) {
      ok_ = false;
      return;
    }
    for (std::size_t i = 0; i < rows_->size(); ++i)
      set((*rows_)[i], size == 0 ? Value{} : column->Get(size == 1 ? 0 : static_cast<int>(i)));
  }

  std::vector<Row>* rows_;
  bool ok_ = true;
};

} // namespace troupe::actors
