// Arguments of the sub-commands as parsed, and the function behind each.
//
// troupe_main.cpp fills the structs; a command prints results to standard output, everything else
// to standard error, and returns its exit code.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {
struct LedgerFault;
} // namespace troupe::actors

namespace troupe::app {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;  ///< Failed while running; state is kept.
inline constexpr int kExitRefused = 2; ///< Refused before starting.
inline constexpr int kExitPartial = 3; ///< Done, but some lines or cases failed.
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitTerminated = 143;

/// Flags of every sub-command.
struct CommonArguments {
  std::string config;            ///< --config FILE, "" = the compiled-in defaults.
  std::vector<std::string> sets; ///< --set table.key=VALUE, in order.
  bool json = false;
  std::string log_level; ///< "" = as configured.
  bool quiet = false;
};

struct BatchArguments {
  CommonArguments common;
  std::string model;
  std::string input;
  std::string output;
  std::string errors;
  std::string policies;
  std::string order = "completion"; ///< "completion" or "input".
  std::int64_t inflight_max = 0;    ///< 0 = as configured.
  std::string summary;
  std::string metrics; ///< "" = as configured.
  bool restart = false;
  bool check = false;
};

struct GenerateArguments {
  CommonArguments common;
  std::string model;
  std::string prompt;
  bool chat = false;
  std::int64_t max_tokens = 0; ///< 0 = as configured.
  std::string policies;
};

struct VerifyArguments {
  CommonArguments common;
  std::string model;
  std::vector<std::string> goldens;
  bool verbose = false;
};

struct InspectArguments {
  CommonArguments common;
  std::string model;
};

struct TokenizeArguments {
  CommonArguments common;
  std::string model;
  std::string input; ///< "" or "-" = standard input.
  bool decode = false;
  bool plain = false;
  bool chat = false;
};

struct ConfigArguments {
  CommonArguments common;
  std::string file;
  bool show = false; ///< Else check.
};

struct PolicyNewArguments {
  std::string name;
  std::string kind;
  std::string language = "c++"; ///< "c" or "c++".
  std::string folder;           ///< "" = the policy's name, in the working directory.
  bool json = false;
  bool quiet = false;
};

struct PolicyTestArguments {
  std::string library;
  std::uint64_t seed = 1;
  std::int64_t decide_us = 1'000;
  std::int64_t create_ms = 5'000;
  std::string policy; ///< "KIND/NAME"; "" = all.
  bool json = false;
  // Of the child processes that the command starts.
  bool is_child = false;
  std::string digest;
};

struct PolicyArguments {
  CommonArguments common;
  std::string verb;    ///< "show", "check", "diff", "swap", "shadow", "canary", ...
  std::string connect; ///< Path of a control socket; "" = the one in the working directory.
  std::string file;    ///< Of check, diff, swap.
  std::string other;   ///< Of diff; "" = the live set.
  std::string kind;    ///< Of shadow, canary.
  std::string policy;  ///< Of shadow, canary; "off" takes it away.
  double share = 0.0;  ///< Of canary; 0 = as it is.
};

struct TopArguments {
  CommonArguments common;
  std::string connect;    ///< As above.
  std::int64_t count = 0; ///< Times to show it; 0 = until the system ends.
};

struct SimArguments {
  CommonArguments common;
  std::string file;
  std::string seeds; ///< "A..B", "" = as the file says.
};

struct ExplainArguments {
  CommonArguments common;
  std::string request; ///< A custom_id, or the number of a request.
  std::string ledger;  ///< Folder; "" = that of a running system.
  std::string connect; ///< As above, of the system that is asked where its ledger lies.
  std::string why_not; ///< A rank's name; "" = the whole story.
};

struct LedgerArguments {
  CommonArguments common;
  std::string action; ///< "tail", "stats" or "export".
  std::string ledger; ///< "" = as configured.
  std::string what;   ///< Kind of entry; "" = all.
  std::int64_t lines = 20;
};

struct ReplayArguments {
  CommonArguments common;
  std::string ledger;
  std::string policies;    ///< "" = the sets of the ledger.
  std::int64_t first = 20; ///< Differences that are shown.
  std::string version;     ///< Of this program.
};

struct BenchArguments {
  CommonArguments common;
  std::string what; ///< "engine", "messages" or "scheduler".
  std::string model;
};

int command_batch(const BatchArguments& arguments);
int command_generate(const GenerateArguments& arguments);
int command_verify(const VerifyArguments& arguments);
int command_inspect(const InspectArguments& arguments);
int command_tokenize(const TokenizeArguments& arguments);
int command_config(const ConfigArguments& arguments);
int command_bench(const BenchArguments& arguments);
int command_sim(const SimArguments& arguments);
int command_explain(const ExplainArguments& arguments);
int command_policy_new(const PolicyNewArguments& arguments);
int command_policy_test(const PolicyTestArguments& arguments);
int command_policy(const PolicyArguments& arguments);
int command_top(const TopArguments& arguments);
int command_ledger(const LedgerArguments& arguments);
int command_replay(const ReplayArguments& arguments);

/// Tells on standard error what of a ledger could not be read.
void say_faults(const std::vector<actors::LedgerFault>& faults);

/// Exit code of a command that did what it could with a ledger: kExitDone; over damage
/// kExitPartial, or kExitFailed when nothing could be read.
int exit_code_of(const std::vector<actors::LedgerFault>& faults, bool has_read);

/// `batch --check`: validates the input and writes nothing but the bad lines to standard output.
int check_batch_input(const BatchArguments& arguments);

/// Exit code of an error found before anything ran: 1 when a file or the model cannot be read,
/// 2 when what was asked for cannot be done.
int exit_code_of(const Error& error) noexcept;

/// Whether a hanging thread was left behind: the process then ends without destructors.
bool left_threads() noexcept;

/// `message` with the long ones of `words`, and of their values behind '=', cut. Pure.
std::string with_short_words(std::string message, const std::vector<std::string>& words);

/// Prints "troupe: MESSAGE" to standard error and returns `exit_code`.
int fail(int exit_code, std::string_view message);

/// `exit_code`, or kExitFailed with a message when standard output did not take all that was
/// printed.
int all_printed(int exit_code);

/// The same as fail() for the exception that is being handled: nothing of ours throws; libraries
/// do, when memory or threads give out or a result cannot be printed. Returns kExitFailed.
int fail_thrown();

} // namespace troupe::app
