// Every way in which a library's table can be wrong is refused with what it has and what it should.

#include "schedulers/plugin/plugin_table.hpp"
#include "tests/schedulers/plugin/fake_plugin.hpp"

#include <gtest/gtest.h>

namespace troupe::sched {
namespace {

using testing::fake_row;

struct Library {
  std::vector<troupe_policy> rows = {fake_row(true)};
  troupe_plugin plugin{};

  Library() {
    plugin.struct_size = sizeof plugin;
    plugin.abi_major = TROUPE_ABI_MAJOR;
    plugin.abi_minor = TROUPE_ABI_MINOR;
    plugin.name = "test";
    plugin.version = "2.1";
  }
  Result<PluginTable> read() {
    plugin.n = static_cast<std::uint32_t>(rows.size());
    plugin.policies = rows.data();
    return read_plugin(&plugin);
  }
  std::string error() {
    const auto table = read();
    return table.ok() ? "" : table.error().message;
  }
};

TEST(PluginTable, ReadsWhatIsThere) {
  Library library;
  const auto table = library.read();
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->name, "test");
  EXPECT_EQ(table->version, "2.1");
  ASSERT_EQ(table->policies.size(), 1U);
  EXPECT_NE(table->find("decode_balancer", "fake"), nullptr);
  EXPECT_EQ(table->find("queue", "fake"), nullptr);
  EXPECT_EQ(table->find("decode_balancer", "other"), nullptr);
}

TEST(PluginTable, ForeignVersionsAreRefused) {
  EXPECT_EQ(read_plugin(nullptr).error().message,
            "troupe_plugin_entry returned NULL: the library serves no host of ABI major 1");
  Library library;
  library.plugin.abi_major = 2;
  EXPECT_EQ(library.error(), "built for ABI major 2, this host has 1; build it with this host's "
                             "policy_abi.h");
  library = Library();
  library.plugin.struct_size = 16;
  EXPECT_EQ(library.error(), "troupe_plugin has 16 bytes, expected at least 40; set struct_size to "
                             "its sizeof");
}

TEST(PluginTable, ALaterMinorVersionMayKnowMore) {
  // Longer rows, and a kind that this host does not have.
  struct LongerRow {
    troupe_policy row;
    std::int64_t later;
  };
  std::vector<LongerRow> rows(2, LongerRow{fake_row(false), 5});
  rows[0].row.struct_size = rows[1].row.struct_size = sizeof(LongerRow);
  rows[0].row.kind = "moon_phase";
  Library library;
  library.plugin.n = 2;
  library.plugin.policies = &rows[0].row;
  library.plugin.abi_minor = TROUPE_ABI_MINOR + 1;
  const auto table = read_plugin(&library.plugin);
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_EQ(table->policies.size(), 1U);
  EXPECT_EQ(table->policies[0].name, "fake");
  library.plugin.abi_minor = TROUPE_ABI_MINOR;
  EXPECT_NE(read_plugin(&library.plugin).error().message.find("moon_phase"), std::string::npos);
}

TEST(PluginTable, WrongRowsAreNamed) {
  const auto error = [](auto change) {
    Library library;
    change(library);
    return library.error();
  };
  EXPECT_EQ(error([](Library& l) { l.rows.clear(); }), "holds 0 policies, expected 1 to 256");
  EXPECT_EQ(error([](Library& l) { l.rows.assign(257, fake_row(false)); }),
            "holds 257 policies, expected 1 to 256");
  EXPECT_EQ(error([](Library& l) { l.rows[0].struct_size = 8; }),
            "troupe_policy has 8 bytes, expected at least 72; set struct_size to its sizeof");
  EXPECT_EQ(error([](Library& l) { l.rows[0].kind = "decode_balancr"; })
                .find("found a policy of the kind \"decode_balancr\"; did you mean "
                      "\"decode_balancer\"? Valid: admission"),
            0U);
  EXPECT_NE(error([](Library& l) { l.rows[0].kind = nullptr; }).find("the kind \"\""),
            std::string::npos);
  EXPECT_EQ(error([](Library& l) { l.rows[0].name = "Not A Name"; }),
            "decode_balancer: found \"Not A Name\" as the name of a policy, expected 1 to 64 of "
            "a-z, 0-9 and _");
  EXPECT_NE(error([](Library& l) { l.rows[0].name = nullptr; }).find("found \"\""),
            std::string::npos);
  EXPECT_NE(error([](Library& l) { l.rows[0].create = nullptr; }).find("create and destroy"),
            std::string::npos);
  EXPECT_NE(error([](Library& l) { l.rows[0].destroy = nullptr; }).find("create and destroy"),
            std::string::npos);
  EXPECT_NE(error([](Library& l) { l.rows[0].import_state = nullptr; }).find("come both"),
            std::string::npos);
  EXPECT_EQ(error([](Library& l) { l.rows[0].table = nullptr; }),
            "decode_balancer \"fake\": its table is NULL");
  static constexpr troupe_decode_balancer kShort{12, 0, testing::fake_decide};
  EXPECT_NE(error([](Library& l) { l.rows[0].table = &kShort; }).find("its table has 12 bytes"),
            std::string::npos);
  static constexpr troupe_decode_balancer kNoDecide{sizeof kNoDecide, 0, nullptr};
  EXPECT_EQ(error([](Library& l) { l.rows[0].table = &kNoDecide; }),
            "decode_balancer \"fake\": decide is NULL");
  EXPECT_EQ(error([](Library& l) { l.rows.assign(2, fake_row(false)); }),
            "decode_balancer \"fake\" is there twice");
  const std::string long_schema(70'000, ' ');
  EXPECT_NE(error([&](Library& l) {
              l.rows[0].options_schema = long_schema.c_str();
            }).find("options_schema is longer"),
            std::string::npos);
}

TEST(PluginTable, WhatALibraryDoesNotHaveIsZero) {
  // A chunker's table of a header without step_budget_ps.
  troupe_prefill_chunker table{};
  table.struct_size = offsetof(troupe_prefill_chunker, step_budget_ps);
  table.step_budget_ps = [](void*, const troupe_cost_model*, std::size_t, const troupe_host*,
                            std::int64_t) { return std::int64_t{1}; };
  EXPECT_EQ(struct_of_library<troupe_prefill_chunker>(&table).step_budget_ps, nullptr);
}

} // namespace
} // namespace troupe::sched
