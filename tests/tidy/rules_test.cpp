// Every rule on small texts that keep it and that break it.

#include "tests/tidy/rules.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::tidy {
namespace {

std::vector<std::string> messages(const std::vector<Violation>& violations) {
  std::vector<std::string> out;
  for (const Violation& one : violations)
    out.push_back(one.message);
  return out;
}

/// Lines of the violations that a rule finds in a text.
template <class Check>
std::vector<std::int64_t> found(Check check, const std::string& path, const std::string& text) {
  std::vector<std::int64_t> lines;
  for (const Violation& one : check(SourceFile{path, text}))
    lines.push_back(one.line);
  return lines;
}

using Lines = std::vector<std::int64_t>;

std::string repeated(const std::string& line, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += line;
  return out;
}

TEST(SourceText, BlanksCommentsAndLiterals) {
  const std::string text = "a(1'000); // \"b\"\n\"x\\\"y\" 'c' R\"(\n}\")\" /* d\n*/ e\n";
  const std::string code = without_comments_and_literals(text);
  EXPECT_EQ(lines_of(code).size(), lines_of(text).size());
  EXPECT_NE(code.find("a(1'000);"), std::string::npos);
  EXPECT_NE(code.find("e\n"), std::string::npos);
  for (const char gone : {'b', 'x', 'y', 'c', 'd', '}'})
    EXPECT_EQ(code.find(gone), std::string::npos) << gone;
  EXPECT_NE(comments_only(text).find("// \"b\""), std::string::npos);
  EXPECT_EQ(comments_only(text).find("a("), std::string::npos);
}

TEST(SourceText, FindsFunctionsWithTheirLines) {
  const std::string text = "#define OPEN {\n"                   // 1
                           "namespace a {\n"                    // 2
                           "struct B {\n"                       // 3
                           "  int c = 1;\n"                     // 4
                           "  int d() const { return c; }\n"    // 5
                           "private:\n"                         // 6
                           "  explicit B(int x)\n"              // 7
                           "      : c{x}, e_(x) {\n"            // 8
                           "    f([&] {\n"                      // 9
                           "      if (x) { g(); }\n"            // 10
                           "    });\n"                          // 11
                           "  }\n"                              // 12
                           "};\n"                               // 13
                           "const int h[] = {1, 2};\n"          // 14
                           "template <class T>\n"               // 15
                           "auto B::operator()(T t) -> int {\n" // 16
                           "  return \"}\"[0];\n"               // 17
                           "}\n"                                // 18
                           "TEST(I, J) {\n"                     // 19
                           "}\n"                                // 20
                           "}\n";                               // 21
  const std::vector<Function> functions = functions_of(text);
  ASSERT_EQ(functions.size(), 4U);
  EXPECT_EQ(functions[0].name, "d");
  EXPECT_EQ(functions[0].lines(), 1);
  EXPECT_EQ(functions[1].name, "B");
  EXPECT_EQ(functions[1].first_line, 7);
  EXPECT_EQ(functions[1].last_line, 12);
  EXPECT_EQ(functions[2].name, "B::operator()");
  EXPECT_EQ(functions[2].lines(), 4);
  EXPECT_EQ(functions[3].name, "TEST(I, J)");
}

TEST(IncludeRules, RoomsKeepTheirWalls) {
  const auto count = [](const std::string& path, const std::string& target) {
    return check_includes({path, "#include \"" + target + "\"\n"}).size();
  };
  EXPECT_EQ(count("schedulers/stage/x.cpp", "schedulers/core/ids.hpp"), 0U);
  EXPECT_EQ(count("schedulers/stage/x.cpp", "actors/messages.hpp"), 1U);
  EXPECT_EQ(count("schedulers/core/x.cpp", "schedulers/stage/effects.hpp"), 1U);
  EXPECT_EQ(count("kernels/cpu/x.cpp", "engine/step.hpp"), 1U);
  EXPECT_EQ(count("engine/x.cpp", "kernels/op_table.hpp"), 0U);
  EXPECT_EQ(count("engine/x.cpp", "kernels/cpu/gemm.hpp"), 1U);
  EXPECT_EQ(count("engine/text/x.cpp", "kernels/op_table.hpp"), 1U);
  EXPECT_EQ(count("engine/x.cpp", "schedulers/stage/effects.hpp"), 1U);
  EXPECT_EQ(count("engine/text/x.cpp", "engine/engine.hpp"), 1U);
  EXPECT_EQ(count("transport/x.cpp", "engine/step.hpp"), 1U);
  EXPECT_EQ(count("actors/x.cpp", "engine/step.hpp"), 0U);
  EXPECT_EQ(count("actors/x.cpp", "engine/model/config.hpp"), 1U);
  EXPECT_EQ(count("actors/x.cpp", "kernels/ops.hpp"), 1U);
  EXPECT_EQ(count("actors/x.cpp", "tests/support/x.hpp"), 1U);
  EXPECT_EQ(count("actors/x.cpp", "transport/loopback/loopback.hpp"), 1U);
  EXPECT_EQ(count("actors/app/x.cpp", "transport/loopback/loopback.hpp"), 0U);
  EXPECT_EQ(count("actors/x.cpp", "messages.hpp"), 1U);
  EXPECT_EQ(count("tests/x_test.cpp", "kernels/cpu/gemm.hpp"), 0U);
}

TEST(IncludeRules, LibrariesStayWhereTheyBelong) {
  const auto count = [](const std::string& path, const std::string& target) {
    return check_includes({path, "#include <" + target + ">\n"}).size();
  };
  EXPECT_EQ(count("actors/x.hpp", "caf/actor.hpp"), 0U);
  EXPECT_EQ(count("engine/x.cpp", "caf/actor.hpp"), 1U);
  EXPECT_EQ(count("actors/app/journal.cpp", "sqlite3.h"), 0U);
  EXPECT_EQ(count("actors/app/summary.cpp", "sqlite3.h"), 1U);
  EXPECT_EQ(count("actors/app/config_loader.cpp", "toml++/toml.h"), 0U);
  EXPECT_EQ(count("actors/app/summary.cpp", "toml++/toml.h"), 1U);
  EXPECT_EQ(count("actors/app/command_batch.cpp", "CLI/CLI.hpp"), 1U);
  EXPECT_EQ(count("engine/text/pre_tokenizer.cpp", "pcre2.h"), 0U);
  EXPECT_EQ(count("engine/model/x.cpp", "pcre2.h"), 1U);
  EXPECT_EQ(count("engine/model/x.cpp", "nlohmann/json.hpp"), 0U);
  EXPECT_EQ(count("engine/model/x.hpp", "nlohmann/json.hpp"), 1U);
  EXPECT_EQ(count("kernels/cpu/x.cpp", "spdlog/spdlog.h"), 1U);
  EXPECT_EQ(count("actors/ledger.cpp", "actors/records/handoff.pb.h"), 1U);
  EXPECT_EQ(count("actors/records/codec.cpp", "actors/records/handoff.pb.h"), 0U);
  EXPECT_EQ(count("actors/records/ledger_codec.cpp", "actors/records/ledger.pb.h"), 0U);
  EXPECT_EQ(count("actors/records/columns.hpp", "actors/records/ledger.pb.h"), 1U);
  EXPECT_EQ(count("actors/ledger.cpp", "google/protobuf/descriptor.pb.h"), 1U);
  EXPECT_EQ(count("tests/actors/records/a_test.cpp", "google/protobuf/descriptor.pb.h"), 0U);
  EXPECT_EQ(count("engine/x.cpp", "boost/asio.hpp"), 1U);
  EXPECT_EQ(count("engine/x.cpp", "engine/step.hpp"), 1U);
  EXPECT_EQ(count("engine/x.cpp", "chrono"), 0U);
  EXPECT_EQ(count("schedulers/stage/x.cpp", "chrono"), 1U);
  EXPECT_EQ(count("schedulers/stage/x.cpp", "unordered_map"), 1U);
}

TEST(PurityRules, FindsWhatMustNotDecide) {
  const std::vector<std::string> bad = {"auto t = std::chrono::steady_clock::now();",
                                        "const auto t = time(nullptr);",
                                        "std::random_device d;",
                                        "int r = rand();",
                                        "std::mutex m;",
                                        "std::thread t;",
                                        "sleep(1);",
                                        "FILE* f = fopen(p, m);",
                                        "std::cout << x;",
                                        "printf(x);",
                                        "caf::actor a;",
                                        "std::unordered_map<int, int> m;",
                                        "double score = 0;",
                                        "std::map<Rank*, int> m;",
                                        "throw Error();",
                                        "const char* v = getenv(n);"};
  for (const std::string& line : bad) {
    EXPECT_EQ(found(check_purity, "schedulers/stage/x.cpp", "//\n" + line + "\n"), Lines{2})
        << line;
    EXPECT_EQ(found(check_purity, "engine/x.cpp", line), Lines{}) << line;
  }
  const std::string getter = "Result<double> fraction(std::string_view key);\n";
  EXPECT_EQ(found(check_purity, "schedulers/core/options.hpp", getter), Lines{});
  EXPECT_EQ(found(check_purity, "schedulers/core/rng.hpp", getter), Lines{1});
}

TEST(PurityRules, LeavesGoodCodeAlone) {
  const std::string good = "// double the time (clock) of a thread\n"
                           "std::int64_t service_time(const Rank& rank);\n"
                           "effects.time(now_us);\n"
                           "std::map<RankId, Rank> ranks;\n"
                           "const char* text = \"double rand()\";\n"
                           "std::snprintf(buffer, size, form);\n";
  EXPECT_EQ(found(check_purity, "schedulers/stage/x.cpp", good), Lines{});
}

TEST(TextRules, WantsPurposeAndPragma) {
  const std::string good = "// What this is for.\n\n#pragma once\n\nstruct Rank {};\n";
  EXPECT_EQ(found(check_text, "engine/x.hpp", good), Lines{});
  EXPECT_EQ(found(check_text, "engine/x.hpp", "#pragma once\n"), Lines{1});
  EXPECT_EQ(found(check_text, "engine/x.hpp", "// What.\n"), Lines{0});
  EXPECT_EQ(found(check_text, "engine/x.cpp", "// What.\n"), Lines{});
  EXPECT_EQ(found(check_text, "engine/x.cpp", "#include \"engine/x.hpp\"\n"), Lines{});
  EXPECT_EQ(found(check_text, "engine/x.cpp", "#include \"engine/y.hpp\"\n"), Lines{1});
  EXPECT_EQ(found(check_text, "engine/x.cpp", repeated("// What.\n", 7)), Lines{1});
  EXPECT_EQ(found(check_text, "engine/X.cpp", "// What.\n"), Lines{0});
  EXPECT_EQ(found(check_text, "tests/run", "#!/bin/bash\n# What.\n"), Lines{});
  EXPECT_EQ(found(check_text, "tests/run", "#!/bin/bash\necho\n"), Lines{1});
}

TEST(TextRules, CountsLinesAndColumns) {
  const std::string head = "// What.\n";
  EXPECT_EQ(found(check_text, "engine/x.cpp", head + repeated("int a;\n", 599)), Lines{});
  EXPECT_EQ(found(check_text, "engine/x.cpp", head + repeated("int a;\n", 600)), Lines{0});
  EXPECT_EQ(found(check_text, "engine/x.cpp", "// " + repeated("é", 97) + "\n"), Lines{});
  EXPECT_EQ(found(check_text, "engine/x.cpp", "// " + repeated("é", 98) + "\n"), Lines{1});
  EXPECT_EQ(found(check_text, "engine/x.cpp", head + "int a; \n\tint b;\nint c;"),
            (Lines{2, 3, 4}));
}

TEST(TextRules, FindsWordsAndNames) {
  const std::vector<std::string> bad = {"// TO"
                                        "DO: later",
                                        "int a; // FIX"
                                        "ME",
                                        "// as issue 12 says",
                                        "// see #12",
                                        "using namespace std;",
                                        "int get_rank(int a);",
                                        "assert(a);",
                                        "struct rank {",
                                        "namespace Rank {",
                                        "self->request(a, caf::infinite, b);",
                                        "request(a).await(b);"};
  for (const std::string& line : bad)
    EXPECT_EQ(found(check_text, "actors/x.cpp", "// What.\n" + line + "\n"), Lines{2}) << line;
  const std::vector<std::string> good = {"json.get_to(a);",          "std::get_if<A>(&b);",
                                         "static_assert(a);",        "struct Rank {",
                                         "const char* a = \"#12\";", "using namespace test_words;",
                                         "// a tissue of 12 parts"};
  for (const std::string& line : good)
    EXPECT_EQ(found(check_text, "actors/x.cpp", "// What.\n" + line + "\n"), Lines{}) << line;
  EXPECT_EQ(found(check_text, "actors/x.hpp", "// What.\n#pragma once\nusing namespace a;\n"),
            Lines{3});
}

TEST(FunctionRules, RatchetOnlyTightens) {
  const auto file = [](int body) {
    return std::vector<SourceFile>{
        {"engine/x.cpp", "//\nint f() {\n" + repeated("  g();\n", body) + "}\n"}};
  };
  const std::vector<LongFunction> entry = {{"engine/x.cpp", "f", 80}};
  EXPECT_EQ(check_functions(file(68), {}).size(), 0U);
  ASSERT_EQ(check_functions(file(69), {}).size(), 1U);
  EXPECT_EQ(check_functions(file(69), {})[0].line, 2);
  EXPECT_EQ(check_functions(file(78), entry).size(), 0U);
  EXPECT_EQ(messages(check_functions(file(79), entry))[0], "f: 81 lines, expected at most 80");
  EXPECT_EQ(messages(check_functions(file(77), entry)),
            std::vector<std::string>{"f: has become shorter; lower or remove its entry"});
  EXPECT_EQ(check_functions(file(10), entry).size(), 1U);
}

TEST(TreeRules, SourcesStandInALists) {
  const SourceFile list{"engine/CMakeLists.txt", "add(SOURCES a.cpp model/b.cpp HEADERS c.hpp)\n"};
  const auto count = [&](const std::string& path) {
    return check_cmake_lists({list, {path, ""}}).size();
  };
  EXPECT_EQ(count("engine/a.cpp"), 0U);
  EXPECT_EQ(count("engine/model/b.cpp"), 0U);
  EXPECT_EQ(count("engine/c.hpp"), 0U);
  EXPECT_EQ(count("engine/b.cpp"), 1U);
  EXPECT_EQ(count("engine/aa.cpp"), 1U);
  EXPECT_EQ(count("engine/model/c.hpp"), 1U);
  EXPECT_EQ(count("kernels/a.cpp"), 1U);
  const SourceFile above{"tests/a/CMakeLists.txt", "add(${CMAKE_SOURCE_DIR}/tests/b/c.cpp)\n"};
  EXPECT_EQ(check_cmake_lists({above, {"tests/b/c.cpp", ""}}).size(), 0U);
  EXPECT_EQ(check_cmake_lists({above, {"tests/b/d.cpp", ""}}).size(), 1U);
  EXPECT_EQ(check_cmake_lists({{"engine/CMakeLists.txt", "file(GLOB a *.cpp)\n"}}).size(), 1U);
}

TEST(TreeRules, SourcesIncludeTheirOwnHeaderFirst) {
  const SourceFile header{"engine/a.hpp", ""};
  const auto count = [&](const std::string& path, const std::string& text) {
    return check_own_headers({header, {path, text}}).size();
  };
  EXPECT_EQ(count("engine/a.cpp", "#include \"engine/a.hpp\"\n#include <vector>\n"), 0U);
  EXPECT_EQ(count("engine/a.cpp", "#include <vector>\n#include \"engine/a.hpp\"\n"), 1U);
  EXPECT_EQ(count("engine/a.cpp", "int x;\n"), 1U);
  EXPECT_EQ(count("engine/b.cpp", "#include <vector>\n"), 0U) << "it has no header";
}

TEST(TreeRules, LinksAreFollowed) {
  const auto count = [](const std::string& text) {
    return check_links({{"actors/README.md", text}}, {"actors", "actors/a.hpp", "engine/b.hpp"})
        .size();
  };
  EXPECT_EQ(count("[a](a.hpp) [b](../engine/b.hpp#part) [c](https://example.org/c)"), 0U);
  EXPECT_EQ(count("[a](b.hpp)\n[b](../a.hpp)"), 2U);
}

TEST(CaseRules, RowsAndTestsAreCompared) {
  const std::vector<SourceFile> files = {
      {"tests/a_test.cpp", "TEST(Cases, A1_Works) {}\nTEST_F(Disk,\n       B2_Full) {}\n"},
      {"actors/b.cpp", "TEST(Cases, A3_NotATest)\n"}};
  const auto check = [&](const std::string& rows) {
    return messages(check_case_table({"tests/README.md", rows}, {"A1", "B2"}, files));
  };
  const std::string good = "| A1 | x | `Cases.A1_Works` |\n| B2 | y | `Disk.B2_Full`, said so |\n";
  EXPECT_TRUE(check(good).empty());
  EXPECT_TRUE(check("| A1, B2 | x | no server; `limits.key` is no test |\n").empty());
  EXPECT_EQ(check("| A1 | x | `Cases.A1_Works` |\n"), std::vector<std::string>{"no row for B2"});
  EXPECT_EQ(check(good + "| A1 | x | again |\n").size(), 1U);
  EXPECT_TRUE(check(good + "| P1, P2 | of other sections | none |\n").empty());
  EXPECT_EQ(check(good + "| P1, P1 | twice | none |\n").size(), 1U);
  EXPECT_EQ(check("| A1 | x | `Cases.A3_NotATest` |\n| B2 | y | none |\n"),
            std::vector<std::string>{"no such test: Cases.A3_NotATest"});
}

TEST(TreeRules, TopLevelIsFixed) {
  std::vector<std::string> entries = {
      "CMakeLists.txt", "README.md", "LICENSE", "actors",   "schedulers", "engine", "kernels",
      "transport",      "configs",   "tests",   "examples", ".git",       "build",  "build-asan"};
  EXPECT_EQ(check_top_level(entries).size(), 0U);
  entries.push_back("src");
  EXPECT_EQ(check_top_level(entries).size(), 1U);
  entries.erase(entries.begin());
  EXPECT_EQ(check_top_level(entries).size(), 2U);
}

} // namespace
} // namespace troupe::tidy
