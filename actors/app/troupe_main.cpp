// The executable: words and flags → arguments → one command. The one source with CLI11.

#include "actors/app/commands.hpp"
#include "actors/app/signals.hpp"
#include "actors/plugin_preflight.hpp"
#include "schedulers/core/options.hpp"
#include "schedulers/core/printable.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::app {

namespace {

constexpr const char* kAbout =
    "Troupe: an actor-model coordinator and inference engine for DeepSeek-V4.1-style models.";
constexpr const char* kOverviewFooter =
    "troupe help COMMAND explains a command.\n\nExample:\n  troupe batch --model "
    "examples/models/nano-v4.1 \\\n    --input prompts.jsonl --output results.jsonl";

std::string version_text() {
  std::string out = "troupe " TROUPE_VERSION "\n";
  out += "build      " TROUPE_BUILD_TYPE ", sanitizers " TROUPE_SANITIZERS "\n";
  out += "compiler   " TROUPE_COMPILER "\n";
  out += "devices    cpu, null\n";
  return out;
}

/// An unset variable of a shell must not silently mean the default.
std::string refuse_empty(const std::string& value) {
  return value.empty() ? "the value is empty; give one, or leave the flag out" : "";
}

/// All commands with their arguments; they live as long as the parser.
class CommandLine {
public:
  CommandLine() {
    app_.footer(kOverviewFooter);
    app_.set_help_flag("-h,--help", "This text");
    app_.add_flag("--version", wants_version_, "Version and build options");
    add_batch();
    add_generate();
    add_verify();
    add_inspect();
    add_tokenize();
    add_config();
    add_bench();
    add_sim();
    add_explain();
    add_policy_new();
    add_policy_test();
    add_policy();
    add_top();
    add_ledger();
    add_replay();
    refuse_empty_values(&app_);
  }

  int run(int argc, char** argv) {
    arguments_.assign(argv, argv + argc);
    if (argc < 2) {
      std::cout << app_.help();
      return kExitDone;
    }
    const std::string word = argv[1];
    if (word == "help") {
      return help(argc, argv);
    }
    if (word.rfind('-', 0) != 0 && !names(&app_).contains(word)) {
      return unknown_word(word, &app_);
    }
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      std::cout << help_of(chosen());
      return kExitDone;
    } catch (const CLI::ParseError& error) {
      return usage_error(error);
    }
    if (wants_version_) {
      std::cout << version_text();
      return kExitDone;
    }
    return run_ ? run_() : usage("a command is missing");
  }

private:
  CLI::App* command(const char* name, const char* about, const char* example,
                    CommonArguments& common) {
    CLI::App* sub = app_.add_subcommand(name, about);
    sub->footer(std::string("Example:\n  ") + example);
    add_common(sub, common);
    return sub;
  }

  static void add_common(CLI::App* sub, CommonArguments& common) {
    const std::string group = "Common options";
    sub->add_option("--config", common.config, "System file; default: compiled in")
        ->type_name("FILE")
        ->group(group);
    sub->add_option("--set", common.sets, "Overrides the file, as in limits.inflight_max=64")
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
    sub->add_flag("--json", common.json, "JSON on standard output, nothing else there")
        ->group(group);
    sub->add_option("--log-level", common.log_level, "What is told on standard error")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
        ->type_name("LEVEL")
        ->group(group);
    sub->add_flag("--quiet", common.quiet, "No progress, no summary, errors only")->group(group);
  }

  static void add_model(CLI::App* sub, std::string& model) {
    sub->add_option("--model", model, "Checkpoint folder; default: model.path")->type_name("DIR");
  }

  static void refuse_empty_values(CLI::App* app) {
    for (CLI::Option* option : app->get_options()) {
      const bool is_flag = option->get_items_expected_max() == 0;
      if (!is_flag && option->get_type_name() != "PROMPT") option->check(refuse_empty);
    }
    for (CLI::App* sub : app->get_subcommands([](CLI::App*) { return true; }))
      refuse_empty_values(sub);
  }

  void add_batch() {
    BatchArguments& a = batch_;
    CLI::App* sub =
        command("batch", "Runs an offline job through the actors",
                "troupe batch --model DIR --input in.jsonl --output out.jsonl", a.common);
    add_model(sub, a.model);
    sub->add_option("--input", a.input, "OpenAI batch lines; - reads standard input")
        ->type_name("FILE")
        ->required();
    sub->add_option("--output", a.output, "Answers, one line a request")->type_name("FILE");
    sub->add_option("--errors", a.errors, "Refused lines; default: OUTPUT with .errors")
        ->type_name("FILE");
    sub->add_option("--policies", a.policies, "Policy file")->type_name("FILE");
    sub->add_option("--order", a.order, "Of the output: completion (default) or input")
        ->check(CLI::IsMember({"completion", "input"}))
        ->type_name("ORDER");
    sub->add_option("--inflight-max", a.inflight_max, "Lines in work at once")
        ->check(CLI::Range(1, 1'000'000))
        ->type_name("N");
    sub->add_option("--summary", a.summary, "Writes the summary as JSON")->type_name("FILE");
    sub->add_option("--metrics", a.metrics, "Prometheus text, rewritten while the job runs")
        ->type_name("FILE");
    sub->add_flag("--restart", a.restart, "Begins anew, whatever this job has done");
    sub->add_flag("--check", a.check, "Only checks the input; bad lines on standard output");
    sub->callback([this] {
      run_ = [this] {
        if (!batch_.check && batch_.output.empty()) {
          return usage("batch: --output is missing");
        }
        return command_batch(batch_);
      };
    });
  }

  void add_generate() {
    GenerateArguments& a = generate_;
    CLI::App* sub = command("generate", "One answer on the terminal as it comes",
                            "troupe generate --model DIR \"Count from 1 to 5.\"", a.common);
    add_model(sub, a.model);
    sub->add_option("prompt", a.prompt, "What to answer")->type_name("PROMPT");
    sub->add_flag("--chat", a.chat, "A conversation");
    sub->add_option("--max-tokens", a.max_tokens, "New tokens at most")
        ->check(CLI::Range(1, 393'216))
        ->type_name("N");
    sub->add_option("--policies", a.policies, "Policy file")->type_name("FILE");
    sub->callback([this] { run_ = [this] { return command_generate(generate_); }; });
  }

  void add_verify() {
    VerifyArguments& a = verify_;
    CLI::App* sub = command("verify", "Compares the engine with golden files",
                            "troupe verify --model DIR goldens/*.safetensors", a.common);
    add_model(sub, a.model);
    sub->add_option("golden", a.goldens, "Golden files, or folders of them")
        ->type_name("GOLDEN")
        ->required();
    sub->add_flag("--verbose", a.verbose, "Each tensor and each row outside");
    sub->callback([this] { run_ = [this] { return command_verify(verify_); }; });
  }

  void add_inspect() {
    InspectArguments& a = inspect_;
    CLI::App* sub = command("inspect", "What a checkpoint is made of; reads headers only",
                            "troupe inspect examples/models/nano-v4.1", a.common);
    sub->add_option("model", a.model, "Checkpoint folder")->type_name("DIR")->required();
    sub->callback([this] { run_ = [this] { return command_inspect(inspect_); }; });
  }

  void add_tokenize() {
    TokenizeArguments& a = tokenize_;
    CLI::App* sub = command("tokenize", "Text to token ids and back, one JSON object a line",
                            "echo '{\"text\": \"Hello\"}' | troupe tokenize --model DIR", a.common);
    add_model(sub, a.model);
    sub->add_option("--input", a.input, "Lines; default: standard input")->type_name("FILE");
    CLI::Option* decode = sub->add_flag("--decode", a.decode, "{\"ids\": [...]} to text");
    CLI::Option* plain = sub->add_flag("--plain", a.plain, "Matches no added tokens");
    CLI::Option* chat = sub->add_flag("--chat", a.chat, "Each line is a chat request body");
    decode->excludes(plain)->excludes(chat);
    plain->excludes(chat);
    sub->callback([this] { run_ = [this] { return command_tokenize(tokenize_); }; });
  }

  void add_config() {
    CLI::App* sub = app_.add_subcommand("config", "Checks or shows a system file");
    sub->footer("Example:\n  troupe config show configs/local.toml --set rank.prefill.count=2");
    sub->require_subcommand(1);
    for (const char* what : {"check", "show"}) {
      const bool is_show = std::string(what) == "show";
      CLI::App* one =
          sub->add_subcommand(what, is_show ? "The resolved configuration as TOML, defaults marked"
                                            : "Exit code 0 when it is valid, 2 when not");
      one->footer(std::string("Example:\n  troupe config ") + what + " configs/local.toml");
      one->add_option("file", config_.file, "System file")->type_name("FILE")->required();
      add_common(one, config_.common);
      one->callback([this, is_show] {
        config_.show = is_show;
        run_ = [this] { return command_config(config_); };
      });
    }
  }

  void add_bench() {
    BenchArguments& a = bench_;
    CLI::App* sub = command("bench", "Speed as ratios against a floor of the same run",
                            "troupe bench engine --model DIR", a.common);
    sub->add_option("what", a.what, "engine, messages, scheduler or overlap")
        ->check(CLI::IsMember({"engine", "messages", "scheduler", "overlap"}))
        ->type_name("WHAT")
        ->required();
    add_model(sub, a.model);
    sub->callback([this] { run_ = [this] { return command_bench(bench_); }; });
  }

  void add_sim() {
    CLI::App* sub = app_.add_subcommand("sim", "Scenarios in the simulator");
    sub->footer("Example:\n  troupe sim run configs/sim/split.toml --seeds 1..20");
    sub->require_subcommand(1);
    CLI::App* run = sub->add_subcommand("run", "A scenario over its seeds: a report each");
    run->footer("Example:\n  troupe sim run configs/sim/split.toml --seeds 1..20\n\n"
                "Exit code 0, 2 (the file is wrong) or 3 (a seed broke an invariant or an "
                "expectation).");
    run->add_option("file", sim_.file, "Simulation file")->type_name("FILE")->required();
    run->add_option("--seeds", sim_.seeds, "FIRST..LAST, or one; default: as the file says")
        ->type_name("A..B");
    run->add_flag("--json", sim_.common.json, "One JSON object a seed and line");
    run->callback([this] { run_ = [this] { return command_sim(sim_); }; });
  }

  void add_explain() {
    ExplainArguments& a = explain_;
    CLI::App* sub = app_.add_subcommand("explain", "Where a request's time went, and why");
    sub->footer("Examples:\n  troupe explain my-request-7 --ledger results.jsonl.ledger\n"
                "  troupe explain my-request-7 --connect results.jsonl.sock\n\n"
                "Of a running job it is told what happened so far.");
    sub->add_option("request", a.request, "A custom_id, or the number of a request")
        ->type_name("REQUEST")
        ->required();
    CLI::Option* ledger =
        sub->add_option("--ledger", a.ledger, "Ledger folder of a job, as in OUTPUT.ledger")
            ->type_name("DIR");
    add_connect(sub, a.connect)->excludes(ledger);
    CLI::Option* why_not =
        sub->add_option("--why-not", a.why_not, "Only why this rank was not chosen")
            ->type_name("RANK");
    sub->add_flag("--json", a.common.json, "One JSON object a request and line")->excludes(why_not);
    sub->add_flag("--quiet", a.common.quiet, "No word of damaged parts of the ledger");
    sub->callback([this] { run_ = [this] { return command_explain(explain_); }; });
  }

  /// `troupe policy`, which holds what the SDK and what a running system offers.
  CLI::App* policy_group() {
    for (CLI::App* sub : app_.get_subcommands([](CLI::App*) { return true; })) {
      if (sub->get_name() == "policy") return sub;
    }
    CLI::App* group =
        app_.add_subcommand("policy", "Policy files, those of a running system, and your own");
    group->footer("Example:\n  troupe policy swap configs/policies/latency.toml --connect "
                  "results.jsonl.sock\n\n`troupe batch` prints the path of its control socket at "
                  "the start.");
    group->require_subcommand(1);
    return group;
  }

  void add_policy_new() {
    PolicyNewArguments& a = policy_new_;
    CLI::App* sub = policy_group()->add_subcommand("new", "A policy to start from, in a folder");
    sub->footer("Example:\n  troupe policy new my_queue --kind queue --lang c++");
    sub->add_option("name", a.name, "Of policy, library and folder")->type_name("NAME")->required();
    sub->add_option("--kind", a.kind, "What it decides: queue, decode_balancer, ...")
        ->type_name("KIND")
        ->required();
    sub->add_option("--lang", a.language, "c or c++ (default)")->type_name("LANG");
    sub->add_option("--dir", a.folder, "Folder; default: the name, here")->type_name("DIR");
    sub->add_flag("--json", a.json, "One JSON document on standard output");
    sub->add_flag("--quiet", a.quiet, "Does not say what to do next");
    sub->callback([this] { run_ = [this] { return command_policy_new(policy_new_); }; });
  }

  void add_policy_test() {
    PolicyTestArguments& a = policy_test_;
    CLI::App* sub = policy_group()->add_subcommand("test", "Is a library of policies fit for use?");
    sub->footer("Example:\n  troupe policy test build/libmine.so\n\nThe library is loaded in child "
                "processes only. Exit code 0, 2 (no such file) or 3 (a check failed).");
    sub->add_option("library", a.library, "Shared object")->type_name("LIB")->required();
    sub->add_option("--seed", a.seed, "Of the questions; default 1")->type_name("N");
    sub->add_option("--decide-us", a.decide_us, "A call takes at most so long; default 1000")
        ->check(CLI::Range(1, 10'000'000))
        ->type_name("US");
    sub->add_option("--create-ms", a.create_ms, "Making an instance takes at most; default 5000")
        ->check(CLI::Range(1, 600'000))
        ->type_name("MS");
    sub->add_option("--policy", a.policy, "Only this one; default: all of the library")
        ->type_name("KIND/NAME");
    sub->add_flag("--json", a.json, "One JSON document on standard output");
    // What the command starts its own child processes with.
    sub->add_flag("--child", a.is_child)->group("");
    sub->add_option("--digest", a.digest)->group("");
    sub->callback([this] { run_ = [this] { return command_policy_test(policy_test_); }; });
  }

  static CLI::Option* add_connect(CLI::App* sub, std::string& connect) {
    return sub
        ->add_option("--connect", connect,
                     "Control socket of the running system; default: the one in this folder")
        ->type_name("SOCKET");
  }

  /// One verb of `troupe policy`; the caller adds what is its own.
  CLI::App* add_verb(CLI::App* group, const char* verb, const char* about, const char* example) {
    CLI::App* sub = group->add_subcommand(verb, about);
    sub->footer(std::string("Example:\n  troupe policy ") + example);
    add_connect(sub, policy_.connect);
    sub->add_flag("--json", policy_.common.json, "One JSON document on standard output");
    sub->add_flag("--quiet", policy_.common.quiet, "Errors only");
    sub->callback([this, verb] {
      policy_.verb = verb;
      run_ = [this] { return command_policy(policy_); };
    });
    return sub;
  }

  void add_policy() {
    PolicyArguments& a = policy_;
    CLI::App* group = policy_group();
    add_verb(group, "show", "What is live, its shadow and its canary", "show");
    add_verb(group, "history", "The sets that were live, and why", "history --json");
    add_verb(group, "promote", "Ends the probation of the live set as passed", "promote");
    add_verb(group, "rollback", "Back to the last set that passed", "rollback");
    CLI::App* check = add_verb(group, "check", "Checks a file, shows what it comes to",
                               "check configs/policies/latency.toml");
    CLI::App* diff = add_verb(group, "diff", "Where two files differ, or a file and the live set",
                              "diff configs/policies/default.toml mine.toml");
    CLI::App* swap = add_verb(group, "swap", "Makes a file the live set, on every stage or on none",
                              "swap configs/policies/latency.toml");
    for (CLI::App* sub : {check, diff, swap})
      sub->add_option("file", a.file, "Policy file")->type_name("FILE")->required();
    diff->add_option("other", a.other, "Policy file; default: the live set")->type_name("FILE");
    CLI::App* shadow = add_verb(group, "shadow", "Asks a policy the same questions; it never acts",
                                "shadow decode_balancer least_count");
    CLI::App* canary = add_verb(group, "canary", "Lets a policy decide for some of the sessions",
                                "canary prefill_router two_choices --share 0.05");
    for (CLI::App* sub : {shadow, canary}) {
      sub->add_option("kind", a.kind, "Kind of policy")->type_name("KIND")->required();
      sub->add_option("policy", a.policy, "Its name, or off")->type_name("POLICY|off")->required();
    }
    canary->add_option("--share", a.share, "Of the sessions; default: as it is")
        ->check(CLI::Range(0.001, 1.0))
        ->type_name("S");
  }

  void add_top() {
    CLI::App* sub = app_.add_subcommand("top", "A running system in the terminal, once a second");
    sub->footer("Example:\n  troupe top --connect results.jsonl.sock");
    add_connect(sub, top_.connect);
    sub->add_option("--count", top_.count, "Times; default: until the system ends")
        ->check(CLI::Range(1, 1'000'000'000))
        ->type_name("N");
    sub->add_flag("--json", top_.common.json, "One JSON object a second");
    sub->callback([this] { run_ = [this] { return command_top(top_); }; });
  }

  void add_ledger() {
    CLI::App* sub = app_.add_subcommand("ledger", "What the ledger of a job holds");
    sub->footer("Example:\n  troupe ledger stats --ledger results.jsonl.ledger");
    sub->require_subcommand(1);
    add_ledger_action(sub, "tail", "The last entries, one a line");
    add_ledger_action(sub, "stats", "Entries, requests, decisions by kind and epoch, what is lost");
    add_ledger_action(sub, "export", "Every entry with all it holds, one JSON object a line");
  }

  void add_ledger_action(CLI::App* ledger, const std::string& action, const std::string& about) {
    LedgerArguments& a = ledger_;
    CLI::App* sub = ledger->add_subcommand(action, about);
    sub->footer("Example:\n  troupe ledger " + action + " --ledger results.jsonl.ledger");
    add_common(sub, a.common);
    sub->add_option("--ledger", a.ledger, "Folder; default: ledger.directory")->type_name("DIR");
    if (action != "stats") {
      sub->add_option("--what", a.what, "Only entries of this kind")
          ->check(CLI::IsMember({"decision", "observed", "milestone", "finish", "set_live", "named",
                                 "rank_change", "began", "event"}))
          ->type_name("KIND");
    }
    if (action == "tail") {
      sub->add_option("--lines", a.lines, "So many; default: 20")
          ->check(CLI::Range(1, 1'000'000))
          ->type_name("N");
    }
    sub->callback([this, action] {
      ledger_.action = action;
      run_ = [this] { return command_ledger(ledger_); };
    });
  }

  void add_replay() {
    ReplayArguments& a = replay_;
    CLI::App* sub =
        command("replay", "Decides what a ledger holds again, by the same policies or by others",
                "troupe replay results.jsonl.ledger --policies mine.toml\n\n"
                "With ledger.level = \"events\" whole stages are run again too.\n"
                "Exit code 0 when all that was asked is equal; 3 when something differs, a policy "
                "gave no valid answer or a set cannot be built; 1 when a library ends the process.",
                a.common);
    sub->add_option("ledger", a.ledger, "Folder")->type_name("LEDGER")->required();
    sub->add_option("--policies", a.policies, "Asks the set of this file instead")
        ->type_name("FILE");
    sub->add_option("--first", a.first, "Differences to show; default: 20")
        ->check(CLI::Range(0, 1'000'000))
        ->type_name("N");
    a.version = TROUPE_VERSION;
    sub->callback([this] { run_ = [this] { return command_replay(replay_); }; });
  }

  /// Of the commands below `at`.
  static std::set<std::string> names(const CLI::App* at) {
    std::set<std::string> out;
    for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
      out.insert(sub->get_name());
    return out;
  }

  /// The innermost command that was named.
  const CLI::App* chosen() const {
    const CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().front();
    }
    return at;
  }

  std::string help_of(const CLI::App* at) const {
    if (at == &app_) {
      return at->help();
    }
    const std::string path = "troupe " + path_of(at);
    return at->help(path.substr(0, path.rfind(' ')));
  }

  int help(int argc, char** argv) {
    CLI::App* at = &app_;
    for (int i = 2; i < argc; ++i) {
      const std::set<std::string> known = names(at);
      if (known.empty()) break; // A value, as in `help bench engine`.
      if (!known.contains(argv[i])) return unknown_word(argv[i], at);
      at = at->get_subcommand(argv[i]);
    }
    std::cout << help_of(at);
    return kExitDone;
  }

  int unknown_word(const std::string& word, const CLI::App* at) const {
    std::set<std::string> known = names(at);
    if (at == &app_) known.insert("help");
    const std::string near = nearest_name(word, known);
    std::string message =
        "there is no command " + quote(at == &app_ ? word : path_of(at) + " " + word);
    if (!near.empty()) {
      message += "; did you mean \"" + near + "\"?";
    }
    const std::string help = at == &app_ ? "" : " " + path_of(at);
    return usage(message + (near.empty() ? "; " : " ") + "`troupe help" + help + "` lists all");
  }

  static int usage(const std::string& message) { return fail(kExitRefused, message); }

  int usage_error(const CLI::ParseError& error) const {
    const CLI::App* at = chosen();
    std::string message = with_short_words(error.what(), arguments_);
    while (!message.empty() && message.back() == '\n') {
      message.pop_back();
    }
    // A misspelt flag is the cause of a required one that is missing.
    if (at->remaining_size(true) > 0) {
      message = unknown_argument(at);
    }
    const std::string name = at == &app_ ? "" : at->get_name() + ": ";
    return usage(name + message + "; `troupe help" + (name.empty() ? "" : " " + path_of(at)) +
                 "` explains");
  }

  std::string path_of(const CLI::App* at) const {
    const CLI::App* parent = at->get_parent();
    const bool is_top = parent == nullptr || parent == &app_;
    return is_top ? at->get_name() : path_of(parent) + " " + at->get_name();
  }

  static std::string unknown_argument(const CLI::App* at) {
    std::string extra;
    for (const std::string& word : at->remaining(true)) {
      if (extra.empty() || (word.rfind("--", 0) == 0 && extra.rfind("--", 0) != 0)) {
        extra = word.substr(0, word.find('='));
      }
    }
    std::set<std::string> known;
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        known.insert("--" + name);
      }
    }
    const std::string near = nearest_name(extra, known);
    std::string message = quote(extra) + " was not expected";
    if (!near.empty()) {
      message += ", did you mean \"" + near + "\"?";
    }
    return message;
  }

  CLI::App app_{kAbout, "troupe"};
  std::vector<std::string> arguments_; ///< As given.
  std::function<int()> run_;
  bool wants_version_ = false;
  BatchArguments batch_;
  GenerateArguments generate_;
  VerifyArguments verify_;
  InspectArguments inspect_;
  TokenizeArguments tokenize_;
  ConfigArguments config_;
  BenchArguments bench_;
  SimArguments sim_;
  ExplainArguments explain_;
  PolicyNewArguments policy_new_;
  PolicyTestArguments policy_test_;
  PolicyArguments policy_;
  TopArguments top_;
  LedgerArguments ledger_;
  ReplayArguments replay_;
};

} // namespace

int troupe_main(int argc, char** argv) {
  ignore_write_signals();
  explain_termination();
  int exit_code = kExitFailed;
  try {
    CommandLine line;
    exit_code = line.run(argc, argv);
  } catch (...) {
    if (std::ferror(stdout) == 0) return fail_thrown(); // Else that is what was thrown.
  }
  return all_printed(exit_code);
}

} // namespace troupe::app

int main(int argc, char** argv) {
  troupe::app::open_standard_streams();
  if (!troupe::app::has_stack_room()) return troupe::app::kExitFailed;
  troupe::app::explain_aborts();
  troupe::actors::look_at_library(argc, argv);
  const int exit_code = troupe::app::troupe_main(argc, argv);
  // A thread that hangs in an engine may still look at static objects.
  if (troupe::app::left_threads()) std::_Exit(exit_code);
  return exit_code;
}
