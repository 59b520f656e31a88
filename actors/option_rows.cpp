// Options of a policy as rows of plain values, and back.

#include "actors/messages.hpp"

#include <bit>
#include <variant>

namespace troupe::actors {

std::vector<OptionRow> option_rows(const OptionTable& table) {
  std::vector<OptionRow> rows;
  for (const auto& [key, option] : table.values()) {
    OptionRow row{key, static_cast<std::int32_t>(option.value.index()), 0, {}, option.where};
    if (const bool* boolean = std::get_if<bool>(&option.value)) row.number = *boolean ? 1 : 0;
    if (const auto* integer = std::get_if<std::int64_t>(&option.value)) row.number = *integer;
    if (const double* real = std::get_if<double>(&option.value)) {
      row.number = std::bit_cast<std::int64_t>(*real);
    }
    if (const auto* text = std::get_if<std::string>(&option.value)) row.text = *text;
    rows.push_back(std::move(row));
  }
  return rows;
}

OptionTable option_table(const std::string& name, const std::vector<OptionRow>& rows) {
  OptionTable table(name);
  for (const OptionRow& row : rows) {
    switch (row.type) {
    case 0:
      table.set(row.key, {row.number != 0, row.where});
      break;
    case 1:
      table.set(row.key, {row.number, row.where});
      break;
    case 2:
      table.set(row.key, {std::bit_cast<double>(row.number), row.where});
      break;
    default:
      table.set(row.key, {row.text, row.where});
    }
  }
  return table;
}

} // namespace troupe::actors
