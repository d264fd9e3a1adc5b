// SPDX-License-Identifier: Apache-2.0
// Runs the executable, beside a library that stands in for libcinch.so.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/cli/program/child.h"
#include "agent/cli/workplace.h"

namespace cinch::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Outcome {
  int status;
  std::string output;  ///< stdout and stderr
};

class Cli : public testing::Test {
 protected:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  void SetUp() override {
    fs::create_directories(root() / "bin");
    fs::create_directories(root() / "lib");
    fs::create_directories(root() / "tmp");
    fs::copy_file(CINCH_EXECUTABLE, root() / "bin" / "cinch");
    for (const char* name : {"libcinch.so", "libcinch_torch.so"}) {
      fs::copy_file(FAKE_CINCH, root() / "lib" / name);
    }
  }

  const fs::path& root() const { return directory_.path(); }
  std::string cinch() const { return (root() / "bin" / "cinch").string(); }

  Outcome program(std::vector<std::string> arguments, const Environment& environment = {}) {
    const fs::path output = root() / ("output" + std::to_string(++runs_));
    Command command{std::move(arguments), {{"TMPDIR", (root() / "tmp").string()}}, output.string()};
    for (const auto& variable : environment) command.environment.push_back(variable);
    const int status = run_child(command).status;
    return {status, fs::exists(output) ? read_file(output) : ""};
  }
  Outcome cli(std::vector<std::string> arguments, const Environment& environment = {}) {
    arguments.insert(arguments.begin(), cinch());
    return program(std::move(arguments), environment);
  }
  Outcome shell(const std::string& script, std::vector<std::string> options = {},
                const Environment& environment = {}) {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), {"--", "sh", "-c", script});
    return cli(std::move(arguments), environment);
  }
  bool left_nothing_behind() const { return fs::is_empty(root() / "tmp"); }

 private:
  TemporaryDirectory directory_;
  int runs_ = 0;
};

TEST_F(Cli, HelpAndVersion) {
  EXPECT_EQ(cli({"--version"}).output, "cinch 0.1.0\n");
  const Outcome help = cli({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("cinch run -- python train.py"), HasSubstr("doctor")));
  EXPECT_EQ(cli({}).status, 2);
  EXPECT_EQ(cli({"runn"}).status, 2);
}

TEST_F(Cli, RunSetsTheEnvironment) {
  const Outcome o = shell("echo \"$LD_PRELOAD|$CINCH_POLICY|$CINCH_REPORT\"");
  EXPECT_EQ(o.status, 0);
  const std::string library = (root() / "lib" / "libcinch.so").string();
  EXPECT_THAT(o.output, StartsWith(library + "|default|" + (root() / "tmp" / "cinch-").string()));
  EXPECT_THAT(o.output, HasSubstr("/%p.json\n"));
  EXPECT_TRUE(left_nothing_behind());
}

TEST_F(Cli, RunKeepsAnExistingPreload) {
  // A sanitized cinch would insist on its runtime being preloaded first.
  const Outcome o =
      shell("echo $LD_PRELOAD", {},
            {{"LD_PRELOAD", FAKE_CINCH}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}});
  EXPECT_THAT(o.output,
              StartsWith((root() / "lib" / "libcinch.so").string() + ":" FAKE_CINCH "\n"));
}

TEST_F(Cli, RunOptionsAreTheEnvironmentsToo) {
  const Outcome o = shell("echo $CINCH_POLICY $CINCH_STRICT $CINCH_DISABLE", {},
                          {{"CINCH_POLICY", "lossless"}, {"CINCH_STRICT", "1"}});
  EXPECT_THAT(o.output, StartsWith("lossless 1\n"));
  EXPECT_EQ(shell("echo $CINCH_DISABLE", {"--disable"}).output, "1\n")
      << "nothing to say about a run that was meant to be plain";
}

TEST_F(Cli, RunMakesPolicyPathsAbsolute) {
  std::ofstream(root() / "mine.json") << R"({"version": 1, "policy": "lossless"})";
  const Outcome o = program({"sh", "-c",
                             "cd " + root().string() + " && " + cinch() +
                                 " run --policy mine.json -- sh -c "
                                 "'cd / && echo $CINCH_POLICY'"});
  EXPECT_THAT(o.output, StartsWith((root() / "mine.json").string() + "\n"));
}

TEST_F(Cli, RunPassesTheStatusOn) {
  EXPECT_EQ(shell("exit 7").status, 7);
  EXPECT_EQ(shell("kill -9 $$").status, 137);
  EXPECT_EQ(cli({"run", "sh", "-c", "exit 5"}).status, 5) << "-- may be left out";
}

TEST_F(Cli, RunSaysWhatCouldNotBeStarted) {
  const Outcome missing = cli({"run", "--", "no-such-program"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.output, "cinch: cannot run no-such-program: No such file or directory\n");
  const Outcome directory = cli({"run", "--", root().string()});
  EXPECT_EQ(directory.status, 126);
  EXPECT_THAT(directory.output, HasSubstr("Permission denied"));
  EXPECT_TRUE(left_nothing_behind());
}

TEST_F(Cli, EveryLineOfAnErrorNamesCinch) {
  const std::vector<std::vector<std::string>> mistakes = {
      {"run"},
      {"run", "--polcy", "off", "--", "true"},
      {"run", "--polcy\nagain", "--", "true"},
      {"run", "--policies", "division", "--", "true"},
      {"run", "--report", "--", "true"},
      {"run", "--report", root().string(), "--", "true"},
      {"run", "--policy", "bugdet", "--", "true"},
      {"run", "--", "no-such\nprogram"},
      {"run", "--dry-run", "--", "no-such-program"},
      {"run", "--dry-run", "--policies", "bugdet", "--", "true"},
      {"runn"}};
  for (const auto& arguments : mistakes) {
    const Outcome o = cli(arguments);
    EXPECT_NE(o.status, 0) << testing::PrintToString(arguments);
    EXPECT_THAT(o.output, testing::EndsWith("\n"));
    std::istringstream lines(o.output);
    for (std::string line; std::getline(lines, line);) EXPECT_THAT(line, StartsWith("cinch: "));
  }
}

TEST_F(Cli, DryRunsLeaveNoFiles) {
  const Outcome o = cli({"run", "--dry-run", "--", "sh", "-c",
                         "echo in $CINCH_TELEMETRY_DIR; touch $CINCH_TELEMETRY_DIR/segment"},
                        {{"CINCH_TELEMETRY_DIR", (root() / "lib").string()}});
  EXPECT_THAT(o.output, StartsWith("in " + (root() / "tmp" / "cinch-").string()));
  EXPECT_FALSE(fs::exists(root() / "lib" / "segment"));
  EXPECT_TRUE(left_nothing_behind());
}

TEST_F(Cli, RunRefusesBadUsage) {
  EXPECT_EQ(cli({"run"}).status, 2);
  EXPECT_EQ(cli({"run", "--"}).status, 2);
  const Outcome typo = cli({"run", "--polcy", "off", "--", "echo", "started"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_THAT(typo.output, AllOf(HasSubstr("--polcy"), Not(HasSubstr("started"))));
}

TEST_F(Cli, RunChecksThePolicyBeforeItStartsAnything) {
  const std::string path = (root() / "bad.json").string();
  std::ofstream(path) << "{\"version\": 1,\n \"policy\": \"divison\"}";
  const Outcome o = shell("echo started", {"--policy", path});
  EXPECT_EQ(o.status, 2);
  EXPECT_THAT(o.output, AllOf(StartsWith("cinch: " + path + ":2:12: policy: found \"divison\""),
                              HasSubstr("did you mean \"division\"?"), Not(HasSubstr("started"))));
  EXPECT_EQ(shell("echo started", {"-p", "nope"}).status, 2);
}

TEST_F(Cli, RunSaysWhichLibraryIsMissing) {
  fs::remove(root() / "lib" / "libcinch_torch.so");
  const Outcome o = shell("echo started");
  EXPECT_EQ(o.status, 2);
  EXPECT_THAT(o.output, AllOf(StartsWith("cinch: libcinch_torch.so is missing from "),
                              Not(HasSubstr("started"))));
}

TEST_F(Cli, RunForwardsSignals) {
  for (const std::string signal : {"TERM", "INT", "HUP"}) {
    const std::string ready = (root() / ("ready" + signal)).string();
    const std::string child = "trap 'echo got " + signal + "; exit 9' " + signal + "; touch " +
                              ready +
                              "; i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done";
    std::ofstream(root() / "child.sh") << child;
    // A shell's background jobs ignore SIGINT unless told otherwise.
    const Outcome o =
        program({"sh", "-c",
                 "env --default-signal=INT " + cinch() + " run -q -- sh " +
                     (root() / "child.sh").string() + " & pid=$!; i=0; while [ ! -e " + ready +
                     " ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; kill -" + signal +
                     " $pid; wait $pid; echo status $?"});
    EXPECT_THAT(o.output, AllOf(HasSubstr("got " + signal), HasSubstr("status 9"))) << signal;
  }
  EXPECT_TRUE(left_nothing_behind());
}

/// Whether `condition` came true within ten seconds.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// 'T' when the process is stopped; '-' when there is none.
char state_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  char state = '-';
  file >> number >> name >> state;
  return state;
}

TEST_F(Cli, RunForwardsWhatWouldKillTheLauncherAndStopsWithTheProgram) {
  const std::string script = (root() / "child.sh").string();
  const std::string output = (root() / "output").string();
  std::ofstream(script)
      << "for s in USR1 USR2 QUIT ALRM VTALRM ABRT 40; do trap \"echo got $s\" $s; done\n"
         "trap 'echo got TERM; exit 9' TERM\necho pid $$\n"
         "i=0; while [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done\n";
  // A group of its own in this session, as a shell's job: not orphaned, so that TSTP stops it.
  const pid_t launcher = fork();
  if (launcher == 0) {
    setpgid(0, 0);
    setenv("TMPDIR", (root() / "tmp").c_str(), 1);
    freopen(output.c_str(), "w", stdout);
    execl(cinch().c_str(), "cinch", "run", "-q", "--", "sh", script.c_str(), nullptr);
    _exit(1);
  }
  const auto said = [&](const std::string& text) {
    return comes_true(
        [&] { return fs::exists(output) && read_file(output).find(text) != std::string::npos; });
  };
  ASSERT_TRUE(said("pid ") && said("\n"));
  const pid_t child = std::stoi(read_file(output).substr(4));
  kill(launcher, SIGPIPE);
  for (const auto& [number, name] : {std::pair{SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGALRM, "ALRM"},
                                     {SIGVTALRM, "VTALRM"},
                                     {SIGABRT, "ABRT"},
                                     {40, "40"}}) {
    kill(launcher, number);
    EXPECT_TRUE(said(std::string("got ") + name + "\n")) << name;
  }
  // Stop and go on: together, by whichever of the signals that a terminal has.
  for (const int number : {SIGTSTP, SIGTTIN}) {
    int status = 0;
    kill(launcher, number);
    EXPECT_TRUE(
        comes_true([&] { return waitpid(launcher, &status, WUNTRACED | WNOHANG) == launcher; }));
    EXPECT_TRUE(WIFSTOPPED(status));
    EXPECT_EQ(state_of_process(child), 'T');
    kill(launcher, SIGCONT);
    EXPECT_TRUE(comes_true([&] { return state_of_process(child) != 'T'; }));
  }
  // Who stops the program alone will also be who lets it go on.
  kill(child, SIGSTOP);
  EXPECT_TRUE(comes_true([&] { return state_of_process(child) == 'T'; }));
  kill(child, SIGCONT);
  kill(launcher, SIGTERM);
  int status = 0;
  EXPECT_TRUE(comes_true([&] { return waitpid(launcher, &status, WNOHANG) == launcher; }));
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 9);
  EXPECT_TRUE(said("got TERM"));
  EXPECT_TRUE(left_nothing_behind());
  if (!WIFEXITED(status)) {
    kill(child, SIGKILL);
    kill(launcher, SIGKILL);
    waitpid(launcher, nullptr, 0);
  }
}

TEST_F(Cli, RunLeavesTheProgramTheSignalsThatItFound) {
  const Outcome o = shell("grep -E '^Sig(Blk|Ign)' /proc/self/status", {"--policy", "off"});
  const std::string plain =
      program({"sh", "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"}).output;
  EXPECT_EQ(o.output, plain);
}

TEST_F(Cli, RunSurvivesAStderrThatNobodyReads) {
  // The status is the program's, and nothing stays behind, though the summary finds no reader.
  const Outcome o = program(
      {"bash", "-c", cinch() + " run -- sh -c 'sleep 0.1; exit 5' 2> >(:); echo status $?"});
  EXPECT_EQ(o.output, "status 5\n");
  EXPECT_TRUE(left_nothing_behind());
}

TEST_F(Cli, RunSummarizesTheReport) {
  const Outcome o = shell("FAKE_RAW_BYTES=4096 env true");
  EXPECT_EQ(o.status, 0);
  EXPECT_THAT(o.output, StartsWith("cinch: 4.0x less activation memory: 4.0 KiB kept as 1.0 KiB at "
                                   "the peak (policy default)\n"));
  EXPECT_EQ(shell("FAKE_RAW_BYTES=4096 env true", {"--quiet"}).output, "");
  EXPECT_TRUE(left_nothing_behind());
}

TEST_F(Cli, RunKeepsTheMainReport) {
  const std::string kept = (root() / "kept.json").string();
  const Outcome o = shell(
      "FAKE_RAW_BYTES=10 env true; FAKE_RAW_BYTES=8192 env true; "
      "FAKE_RAW_BYTES=20 env true",
      {"--report", kept});
  EXPECT_THAT(o.output, HasSubstr("8.0 KiB kept as"));
  EXPECT_THAT(o.output,
              HasSubstr("cinch: 2 more of its processes used PyTorch, with 30 B at their peaks\n"));
  const Outcome shown = cli({"report", kept});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.output, HasSubstr("8.0 KiB kept as 1.0 KiB at the peak"));
}

TEST_F(Cli, RunRefusesAReportItCouldNotWrite) {
  const Outcome o = shell("echo started", {"--report", (root() / "no" / "r.json").string()});
  EXPECT_EQ(o.status, 2);
  EXPECT_THAT(o.output, AllOf(HasSubstr("cannot write the report"), Not(HasSubstr("started"))));
}

TEST_F(Cli, RunWritesReportsThroughLinksAndDevices) {
  const std::string program = "FAKE_RAW_BYTES=8192 env true";
  fs::create_symlink("real.json", root() / "link.json");
  EXPECT_THAT(shell(program, {"-q", "--report", (root() / "link.json").string()}).output, "");
  EXPECT_TRUE(fs::is_symlink(root() / "link.json"));
  EXPECT_THAT(read_file(root() / "real.json"), HasSubstr("\"raw_bytes_at_peak\": 8192"));
  EXPECT_EQ(fs::status(root() / "real.json").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("/dev/null", root() / "null");
  for (const std::string& path : {std::string("/dev/null"), (root() / "null").string()}) {
    EXPECT_EQ(shell(program, {"-q", "--report", path, "--snapshot", path}).output, "") << path;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null") && fs::is_symlink(root() / "null"));
  EXPECT_THAT(shell(program, {"-q", "--report", "/dev/stdout"}).output, HasSubstr(": 8192"));
  EXPECT_EQ(shell(program, {"-q", "--report", "/dev/full"}).output,
            "cinch: no report: cannot write /dev/full: No space left on device\n");
}

TEST_F(Cli, RunKeepsAReportOfEachProcessWhereTheNameTellsThemApart) {
  const Outcome o =
      shell("FAKE_RAW_BYTES=10 env true; FAKE_RAW_BYTES=8192 env true; FAKE_RAW_BYTES=20 env true",
            {"--report", (root() / "r-%p.json").string()});
  EXPECT_THAT(o.output, HasSubstr("8.0 KiB kept as")) << "the process that saved most";
  int reports = 0;
  for (const auto& entry : fs::directory_iterator(root())) {
    reports += entry.path().filename().string().starts_with("r-") ? 1 : 0;
  }
  EXPECT_EQ(reports, 3);
}

TEST_F(Cli, AFailedWriteToStdoutIsAnExitStatus) {
  const std::string path = (root() / "r.json").string();
  std::ofstream(path) << R"({"version": 1})";
  for (const std::string arguments :
       {"policy list", "policy show off", "--help", "man", "watch --once", "env"}) {
    const Outcome o = program({"sh", "-c", cinch() + " " + arguments + " > /dev/full"});
    EXPECT_NE(o.status, 0) << arguments;
    EXPECT_EQ(o.output, "cinch: cannot write to stdout: No space left on device\n") << arguments;
  }
  EXPECT_EQ(program({"sh", "-c", cinch() + " report " + path + " > /dev/full"}).status, 1);
}

TEST_F(Cli, RunIsLoudWhenCinchWasNotActive) {
  const Outcome none = shell("true", {"--quiet"});
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.output, AllOf(StartsWith("cinch: NOT ACTIVE: "), HasSubstr("cinch doctor")));
  EXPECT_THAT(shell("kill -9 $$").output, HasSubstr("killed by signal 9"));
  EXPECT_THAT(shell("FAKE_INACTIVE=1 FAKE_RAW_BYTES=0 env true", {"--quiet"}).output,
              HasSubstr("NOT ACTIVE: torch 2.12 is not 2.11"));
  EXPECT_EQ(shell("true", {"--policy", "off"}).output, "");
}

TEST_F(Cli, PolicyCommands) {
  const Outcome list = cli({"policy", "list"});
  EXPECT_THAT(list.output,
              AllOf(HasSubstr("division"), HasSubstr("lossless"), HasSubstr("\noff ")));
  const Outcome shown = cli({"policy", "show", "lossless"});
  EXPECT_THAT(shown.output, HasSubstr("\"policy\": \"lossless\""));
  EXPECT_EQ(cli({"policy", "show", "nope"}).status, 2);

  const std::string path = (root() / "p.json").string();
  std::ofstream(path) << shown.output;
  const Outcome good = cli({"policy", "check", path});
  EXPECT_EQ(good.status, 0);
  EXPECT_THAT(good.output, StartsWith(path + ": OK\n  policy     lossless\n"));
  std::ofstream(path) << "{\"version\": 1, \"policy\": \"off\",\n  \"sed\": 1}";
  const Outcome bad = cli({"policy", "check", path});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.output, AllOf(StartsWith("cinch: " + path + ":2:3: sed: found an unknown field"),
                                HasSubstr("did you mean \"seed\"?")));
  EXPECT_EQ(cli({"policy"}).status, 2);
}

TEST_F(Cli, ReportRefusesOtherFiles) {
  const std::string path = (root() / "r.json").string();
  EXPECT_EQ(cli({"report", path}).output,
            "cinch: cannot read " + path + ": No such file or directory\n");
  std::ofstream(path) << "{\"version\": 99}";
  const Outcome newer = cli({"report", path});
  EXPECT_EQ(newer.status, 2);
  EXPECT_THAT(newer.output, HasSubstr("found report version 99, expected 1"));
}

/// Whether the text would do anything to a terminal but write: C0 but newlines, DEL, C1.
bool commands_terminals(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool is_c1 = c == 0xC2 && i + 1 < text.size() && (text[i + 1] & 0xE0) == 0x80;
    if ((c < 0x20 && c != '\n') || c == 0x7F || is_c1) return true;
  }
  return false;
}

TEST_F(Cli, WhatFilesHoldCommandsNoTerminal) {
  const std::string evil = R"(\u001b]52;c;AAAA\u0007\u009b2J\u202e)";
  const std::string path = (root() / "evil\033]0;title\007.json").string();
  std::string report = R"({"version": 1, "active": true, "policy": "E", "command": "E",
    "torch_version": "E", "raw_bytes_at_peak": 4, "stored_bytes_at_peak": 1, "steps": 3,
    "devices": [{"allocator": "E"}], "passed_through": [{"reason": "E", "bytes": 1, "count": 1}],
    "ops": [{"op": "E", "operand": "E", "codec": "E"}]})";
  std::string inactive = R"({"version": 1, "active": false, "inactive_reason": "E"})";
  std::string policy = R"({"version": 1, "policy": "E", "E": "E"})";
  std::string rules =
      R"({"version": 1, "policy": "lossless", "rules": [{"match": {"op": "E"}, "action": "keep"}]})";
  for (std::string* text : {&report, &inactive, &policy, &rules}) {
    for (std::size_t at = text->find("\"E\""); at != text->npos; at = text->find("\"E\"", at)) {
      text->replace(at + 1, 1, evil);
    }
    std::ofstream(path) << *text;
    for (const char* command : {"report", "compare", "check", "explain", "run", "replay"}) {
      const std::string word = command;
      const Outcome o = word == "report"    ? cli({"report", path})
                        : word == "compare" ? cli({"report", path, path})
                        : word == "run"     ? cli({"run", "-p", path, "--", "true"})
                        : word == "replay"  ? cli({"replay", path})
                                            : cli({"policy", word, path});
      EXPECT_FALSE(o.output.empty()) << command;
      EXPECT_FALSE(commands_terminals(o.output)) << command << ' ' << o.output;
    }
  }
}

// Another stream uses the first block when the second is requested, if the device lags.
TEST_F(Cli, ReplayPretendsADeviceThatLags) {
  const std::string path = (root() / "a.trace").string();
  std::ofstream(path) << "cinch-trace 1\na 20971520 0\nr 0 1\nf 0\na 20971520 0\nf 1\ns\n";
  const auto reserved_natively = [&](const std::string& lag) {
    const Outcome o = cli({"replay", "--json", "--lag", lag, path});
    EXPECT_EQ(o.status, 0);
    return nlohmann::json::parse(o.output)
        .at(0)
        .at("allocators")
        .at(1)
        .at("peak_reserved")
        .get<std::size_t>();
  };
  EXPECT_EQ(reserved_natively("0"), 20u << 20);
  EXPECT_EQ(reserved_natively("1"), 40u << 20);
  EXPECT_EQ(cli({"replay", "--lag", "-1", path}).status, 2);
}

TEST_F(Cli, ReportComparesTwo) {
  const std::string path = (root() / "r.json").string();
  std::ofstream(path) << R"({"version": 1, "active": true, "policy": "division", "ratio": 4})";
  const Outcome same = cli({"report", path, path});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.output, AllOf(StartsWith("A: " + path), HasSubstr("same")));
  EXPECT_EQ(cli({"report", path, path, "--html", path + ".html"}).status, 2);
  EXPECT_FALSE(fs::exists(path + ".html"));
}

TEST_F(Cli, ReportBecomesAPageThatHoldsNoForeignMarkup) {
  const std::string path = (root() / "r.json").string();
  std::ofstream(path) << R"--({"version": 1, "command": "</script><script>alert(1)"})--";
  EXPECT_EQ(cli({"report", path, "--html", path + ".html"}).output, "");
  const std::string page = read_file(path + ".html");
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), HasSubstr("cinchReport.render")));
  EXPECT_THAT(page, AllOf(HasSubstr("\\u003c/script>\\u003cscript>alert"),
                          Not(HasSubstr("</script><script>"))));
  EXPECT_THAT(page, Not(HasSubstr("@report_")));
  const Outcome nowhere = cli({"report", path, "--html", "/no/such/folder/r.html"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.output, HasSubstr("/no/such/folder/r.html"));
}

TEST_F(Cli, EnvPrintsWhatAShellCanRead) {
  const std::string library = (root() / "lib" / "libcinch.so").string();
  const Environment clean = {{"LD_PRELOAD", ""}};
  EXPECT_EQ(cli({"env"}, clean).output,
            "export LD_PRELOAD='" + library + "'\nexport CINCH_POLICY='default'\n");
  EXPECT_EQ(
      cli({"env", "--format", "plain", "--policy", "lossless", "--report", "/x/%p.json"}, clean)
          .output,
      "LD_PRELOAD=" + library + "\nCINCH_POLICY=lossless\nCINCH_REPORT=/x/%p.json\n");
  EXPECT_THAT(cli({"env", "--format", "fish"}, clean).output,
              StartsWith("set -gx LD_PRELOAD '" + library + "'\n"));
  const Outcome used = program(
      {"sh", "-c", "eval \"$(" + cinch() + " env)\" && echo \"$LD_PRELOAD|$CINCH_POLICY\""}, clean);
  EXPECT_THAT(used.output, HasSubstr(library + "|default\n"));
  EXPECT_EQ(cli({"env", "--policy", "no-such-policy"}, clean).status, 2);
}

TEST_F(Cli, EveryCommandShowsExamplesInItsHelp) {
  const std::string commands = cli({"--help"}).output;
  for (const char* command : {"run", "advise", "watch", "ctl", "agent", "replay", "policy",
                              "report", "doctor", "env", "completion", "man"}) {
    EXPECT_THAT(commands, HasSubstr(command));
    const std::string help = cli({command, "--help"}).output;
    EXPECT_THAT(help, AllOf(HasSubstr("Examples:"), HasSubstr(std::string("cinch ") + command)))
        << command;
  }
}

TEST_F(Cli, CompletionKnowsCommandsAndOptions) {
  const std::string script = cli({"completion", "bash"}).output;
  std::ofstream(root() / "completion") << script;
  const auto completed = [&](const std::string& line) {
    return program({"bash", "-c",
                    "source " + (root() / "completion").string() + "; COMP_WORDS=(" + line +
                        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cinch; echo ${COMPREPLY[@]}"})
        .output;
  };
  EXPECT_EQ(completed("cinch re"), "replay report\n");
  EXPECT_EQ(completed("cinch report --ht"), "--html\n");
  EXPECT_EQ(completed("cinch policy sh"), "show\n");
  EXPECT_EQ(completed("cinch ctl 4711 --bud"), "--budget\n") << "one of a group of options";
  EXPECT_THAT(cli({"completion", "zsh"}).output, HasSubstr("bashcompinit"));
  EXPECT_THAT(cli({"completion", "fish"}).output,
              HasSubstr("complete -c cinch -n '__fish_seen_subcommand_from report' -l html -r"));
  EXPECT_EQ(cli({"completion", "tcsh"}).status, 2);
}

TEST_F(Cli, ManualNamesEveryOption) {
  const std::string page = cli({"man"}).output;
  EXPECT_THAT(page, AllOf(StartsWith(".TH CINCH 1"), HasSubstr(".SS cinch policy show"),
                          HasSubstr("\\-\\-report, \\-r"), HasSubstr("CINCH_POLICY"),
                          HasSubstr(".SS cinch ctl\n"), HasSubstr("\\-\\-empty\\-cache"),
                          Not(HasSubstr(".SS cinch ctl \n"))));
}

TEST_F(Cli, DoctorSpeaksJson) {
  const Outcome o = cli({"doctor", "--python", "no-such-python", "--json"}, {{"LD_PRELOAD", ""}});
  EXPECT_EQ(o.status, 1);
  const auto json = nlohmann::json::parse(o.output);
  EXPECT_FALSE(json.at("works").get<bool>());
  std::map<std::string, std::string> status;
  for (const auto& check : json.at("checks")) {
    status[check.at("name")] = check.at("status");
    EXPECT_TRUE(check.at("status") != "failed" || !check.at("remedy").get<std::string>().empty());
  }
  EXPECT_EQ(status.at("libraries"), "ok");
  EXPECT_EQ(status.at("policy"), "ok");
  EXPECT_EQ(status.at("python"), "failed");
}

TEST_F(Cli, DoctorExaminesThePolicy) {
  const std::string policy = (root() / "wrong.json").string();
  std::ofstream(policy) << "{\"version\": 1, \"policy\": \"division\", \"bits\": 2}";
  const Outcome o = cli({"doctor", "--python", "true", "--policy", policy});
  EXPECT_EQ(o.status, 1);
  EXPECT_THAT(o.output, AllOf(HasSubstr("FAILED  the policy " + policy), HasSubstr("bits")));
}

TEST_F(Cli, DoctorSaysWhatIsWrong) {
  const Outcome no_python = cli({"doctor", "--python", "no-such-python"});
  EXPECT_EQ(no_python.status, 1);
  EXPECT_THAT(no_python.output, AllOf(HasSubstr("FAILED  Python"), HasSubstr("--python")));
  const Outcome not_python = cli({"doctor", "--python", "true"});
  EXPECT_EQ(not_python.status, 1);
  fs::remove(root() / "lib" / "libcinch.so");
  EXPECT_THAT(cli({"doctor", "--python", "true"}).output,
              HasSubstr("FAILED  Cinch's libraries are in place\n        libcinch.so is missing"));
  EXPECT_TRUE(left_nothing_behind());
}

}  // namespace
}  // namespace cinch::cli
