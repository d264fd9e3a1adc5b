// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/history.h"
#include "agent/daemon/http.h"
#include "agent/daemon/metrics.h"
#include "agent/daemon/server.h"
#include "tests/agent/own_directory.h"

namespace cinch::daemon {
namespace {

using telemetry::RunState;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
using Read = telemetry::Run;

Read training(std::uint64_t pid, const char* command = "python -u folder/train.py --lr 1") {
  Read run;
  run.process = {1000, pid, pid + 1, 6};
  run.state = RunState::running;
  run.identity.boot_id.assign("boot");
  run.identity.policy.assign("division");
  run.identity.command.assign(command);
  run.read_at = 2'000'000'000;
  telemetry::LiveFigures live;
  live.heartbeat = 1'500'000'000;
  live.steps = 7;
  live.raw_at_peak = 1000;
  live.stored_at_peak = 250;
  live.nanoseconds_in_cinch = 1'250'000'000;
  run.live = live;
  run.devices = {{0, 10, 20, 30, 40}};
  run.rows = {{"aten::relu", "result", "sign", {3, 96, 3, 0, 0, 0, 0, 0, 0}},
              {"aten::gelu", "input", "sign", {1, 4, 1, 0, 0, 0, 0, 0, 0}}};
  run.history = {{1, 1'500'000'000, 7, 100, 900, 200, 5, 10, 30}};
  return run;
}

Read with_step(Read run, std::uint64_t step) {
  run.live->steps = step;
  run.history.back().step = step;
  return run;
}

TEST(Slots, AreFreeAgainAndDoNotGrow) {
  Slots slots;
  EXPECT_THAT(slots.assign({training(1), training(2), training(3, "python other.py")}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(slots.assign({training(2)}), ElementsAre(1));
  EXPECT_THAT(slots.assign({training(2), training(9)}), ElementsAre(1, 0));
}

TEST(JobLabel, IsTorchrunsOrTheProgramsName) {
  EXPECT_EQ(job_label(training(1)), "train.py");
  EXPECT_EQ(job_label(training(1, "python -c import torch")), "python");
  EXPECT_EQ(job_label(training(1, "")), "");
  Read rank = training(1);
  rank.identity.job.assign("7");
  rank.identity.rank = 0;
  EXPECT_EQ(job_label(rank), "7");
}

TEST(Prometheus, SaysWhatRuns) {
  Read gone = training(2);
  gone.state = RunState::gone;
  const std::string text = prometheus_text({training(1), gone}, {0, 1});
  EXPECT_THAT(text, HasSubstr("# TYPE cinch_steps_total counter\n"
                              "cinch_steps_total{job=\"train.py\",rank=\"\",slot=\"0\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("\ncinch_runs 1\n"));
  EXPECT_THAT(text,
              HasSubstr("cinch_compression_ratio{job=\"train.py\",rank=\"\",slot=\"0\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("slot=\"0\",device=\"cuda:0\"} 30\n"));
  EXPECT_THAT(text, HasSubstr("cinch_codec_raw_bytes_total{job=\"train.py\",rank=\"\",slot=\"0\","
                              "codec=\"sign\"} 100\n"));
  EXPECT_THAT(text, Not(HasSubstr("slot=\"1\"")));
}

TEST(Prometheus, LabelsAreEscaped) {
  const std::string text = prometheus_text({training(1, "python a\"b\\c\xff.py")}, {0});
  EXPECT_THAT(text, HasSubstr(R"(job="a\"b\\c?.py")"));
}

class HistoryTest : public telemetry::OwnDirectoryTest {
 protected:
  const std::string file_ = directory_ + "/history.sqlite";
};

TEST_F(HistoryTest, OutlivesTheAgent) {
  {
    History history(file_);
    history.record({with_step(training(1), 7)}, 100);
    history.record({with_step(training(1), 8), training(2)}, 101);
  }
  struct stat info;
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  History history(file_);
  const Json runs = Json::parse(history.runs_json())["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1]["pid"], 1);
  EXPECT_EQ(runs[1]["steps"], 8);
  EXPECT_EQ(runs[1]["job"], "train.py");
  const Json one = Json::parse(history.run_json(runs[1]["id"]).value());
  ASSERT_EQ(one["points"].size(), 2u);
  EXPECT_EQ(one["points"][1]["step"], 8);
  EXPECT_DOUBLE_EQ(one["points"][1]["time"], 100.5);
  EXPECT_EQ(history.run_json(12345), std::nullopt);
}

TEST_F(HistoryTest, IsBounded) {
  History history(file_);
  std::vector<Read> runs;
  for (int i = 0; i < History::most_runs + 20; ++i) {
    runs.push_back(training(static_cast<std::uint64_t>(i)));
  }
  history.record(runs, 100);
  for (std::uint64_t step = 8; step < 8 + History::most_points + 10; ++step) {
    history.record({with_step(training(1000), step)}, 200);
  }
  const Json all = Json::parse(history.runs_json())["runs"];
  EXPECT_EQ(all.size(), static_cast<std::size_t>(History::most_runs));
  const Json points = Json::parse(history.run_json(all[0]["id"]).value())["points"];
  EXPECT_EQ(points.size(), static_cast<std::size_t>(History::most_points) / 2 + 10);
  EXPECT_EQ(points[0]["step"], 8);
}

TEST_F(HistoryTest, OfANewerVersionIsLeftAlone) {
  { History history(file_); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  try {
    History history(file_);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("version 99"));
  }
  EXPECT_THROW(History("/nowhere/history.sqlite"), std::runtime_error);
}

std::string refusal_of(const std::string& file) {
  try {
    const History history(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST_F(HistoryTest, LeavesAloneWhatIsNotItsOwn) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "CREATE TABLE bookmarks (url TEXT)", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const auto before = std::filesystem::file_size(file_);
  EXPECT_THAT(refusal_of(file_), HasSubstr("a database of another program"));
  EXPECT_EQ(std::filesystem::file_size(file_), before);
  EXPECT_FALSE(std::filesystem::exists(file_ + "-wal"));

  const std::string text = directory_ + "/text";
  std::ofstream(text) << std::string(5000, 'x');
  EXPECT_THAT(refusal_of(text), HasSubstr("not a database"));
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of(fifo), HasSubstr("no regular file"));
  EXPECT_THAT(refusal_of(directory_), HasSubstr("directory"));
  if (geteuid() == 0) {
    const std::string others = directory_ + "/others";
    { const History history(others); }
    ASSERT_EQ(chown(others.c_str(), 1, 1), 0);
    EXPECT_THAT(refusal_of(others), HasSubstr("another user's"));
  }
}

TEST_F(HistoryTest, BecomesPrivate) {
  { const History history(file_); }
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  History history(file_);
  history.record({training(1)}, 100);
  for (const char* name : {"", "-wal", "-shm"}) {
    struct stat info;
    ASSERT_EQ(stat((file_ + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

Content content() {
  return {[] { return std::string("m 1\n"); }, [] { return std::string("{}"); },
          [] { return std::string("{\"runs\":[]}"); },
          []() -> std::string { throw std::runtime_error("the disk is full"); },
          [](std::int64_t id) { return id == 3 ? std::string("{\"id\":3}") : std::string(); }};
}

TEST(Server, AnswersOnTheLoopback) {
  const Server server("127.0.0.1:0", "", content());
  httplib::Client client("http://" + server.address());
  EXPECT_EQ(client.Get("/metrics")->body, "m 1\n");
  EXPECT_THAT(client.Get("/metrics")->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(client.Get("/health")->status, 200);
  EXPECT_EQ(client.Get("/api/v1/runs")->body, "{\"runs\":[]}");
  EXPECT_EQ(client.Get("/api/v1/history/3")->body, "{\"id\":3}");
  EXPECT_EQ(client.Get("/api/v1/history/4")->status, 404);
  EXPECT_EQ(client.Get("/api/v1/history/x")->status, 404);
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_EQ(client.Post("/metrics")->status, 405);
  EXPECT_EQ(client.Head("/metrics")->body, "");
  const auto failed = client.Get("/api/v1/history");
  EXPECT_EQ(failed->status, 500);
  EXPECT_EQ(failed->body, "the disk is full\n");
  const auto page = client.Get("/");
  EXPECT_THAT(page->body, HasSubstr("<script src=\"page.js\""));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(client.Get("/page.js")->status, 200);
  EXPECT_EQ(client.Get("/page.css")->status, 200);
}

TEST(Server, RefusesNamesThatAreNotTheLoopbacks) {
  const Server server("127.0.0.1:0", "", content());
  httplib::Client client("http://" + server.address());
  EXPECT_EQ(client.Get("/metrics", {{"Host", "evil.example:80"}})->status, 403);
  EXPECT_EQ(client.Get("/metrics", {{"Host", "127.0.0.1.evil.example"}})->status, 403);
  EXPECT_EQ(client.Get("/metrics", {{"Host", "localhost:9464"}})->status, 200);
}

TEST(Http, KnowsTheLoopbacksNames) {
  for (const char* name : {"localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:9464", "127.8.9.10",
                           "[::1]", "[::1]:9464", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(names_loopback(name)) << name;
  }
  for (const char* name : {"", ":80", "127.", "127.1", "127.evil.example", "127.0.0.1.evil.example",
                           "127.0.0.1:", "127.0.0.1:80x", "127.0.0.1:80:80", "127.0.0.1@evil",
                           "localhost.evil.example", "[::1", "[::1]x", "[::2]", "::1", "0.0.0.0",
                           "128.0.0.1", "0127.0.0.1", "127.0.0.1 "}) {
    EXPECT_FALSE(names_loopback(name)) << name;
  }
}

/// A connection that sends what a test wants, and no more.
class Raw {
 public:
  explicit Raw(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const timeval patience = {60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  ~Raw() { close(socket_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  bool send(const std::string& text) {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  /// All that comes until the server ends the connection.
  std::string rest() {
    std::string text;
    char chunk[4096];
    for (ssize_t count; (count = recv(socket_, chunk, sizeof chunk, 0)) > 0;) {
      text.append(chunk, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  const int socket_;
};

constexpr const char* good = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Idle connections may stay for an hour here: a server that waited for one would not answer within
// a client's patience.
TEST(HttpServer, WaitsForNobody) {
  const Listener listener("127.0.0.1:0", true);
  constexpr std::chrono::hours deadline(1);
  const HttpServer server(listener,
                          [](const HttpRequest&) { return HttpResponse{.body = "m 1\n"}; },
                          {deadline, deadline});
  // More than there may be, of which every other one began to ask.
  std::vector<std::unique_ptr<Raw>> idle;
  for (std::size_t i = 0; i < HttpServer::most_connections + 10; ++i) {
    idle.push_back(std::make_unique<Raw>(listener.address()));
    if (i % 2 == 0) {
      EXPECT_TRUE(idle.back()->send("GET /metrics HT"));
    }
  }
  for (int i = 0; i < 20; ++i) {
    Raw client(listener.address());
    EXPECT_TRUE(client.send(good));
    ASSERT_THAT(client.rest(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("m 1\n")));
  }
  EXPECT_TRUE(idle.back()->send("TP/1.1\r\nHost: [::1]:80\r\n\r\n"));
  EXPECT_THAT(idle.back()->rest(), StartsWith("HTTP/1.1 400")) << "served when it goes on";
}

TEST(Server, ReadsNoMoreThanARequestMayHave) {
  // With a token, which the sender need not know to send headers.
  const Server server("127.0.0.1:0", "secret", content());
  Raw endless(server.address());
  EXPECT_TRUE(endless.send("GET /metrics HTTP/1.1\r\n"));
  const std::string field = "X: " + std::string(8000, 'x') + "\r\n";
  bool all_sent = true;  // 300 MiB
  for (int i = 0; all_sent && i < 40'000; ++i) all_sent = endless.send(field);
  EXPECT_FALSE(all_sent);
  Raw large(server.address());
  EXPECT_TRUE(large.send("GET /metrics HTTP/1.1\r\n" + field + field + field));
  EXPECT_THAT(large.rest(), StartsWith("HTTP/1.1 431 "));
  for (const std::string body : {"Content-Length: 70000", "Transfer-Encoding: chunked"}) {
    Raw client(server.address());
    EXPECT_TRUE(client.send("POST /metrics HTTP/1.1\r\n" + body + "\r\n\r\nffffff\r\nxxxx"));
    EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 413 ")) << body;
  }
}

TEST(Server, RefusesWhatIsNoRequest) {
  const Server server("127.0.0.1:0", "", content());
  for (const std::string text :
       {"\r\n", "GET\r\n", "GET /metrics\r\n", "GET metrics HTTP/1.1\r\n",
        "GET http://localhost/metrics HTTP/1.1\r\n", "GET /metrics HTTP/2\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nhost: evil\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded\r\n",
        "GET /metrics HTTP/1.1\r\nno field\r\n"}) {
    Raw client(server.address());
    EXPECT_TRUE(client.send(text + "\r\n"));
    EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 400 ")) << text;
  }
  Raw client(server.address());
  EXPECT_TRUE(client.send("GET /metrics?x=1 HTTP/1.0\r\nhOsT:\tlocalhost \r\n\r\n"));
  EXPECT_THAT(client.rest(), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, EndsWhatTakesTooLong) {
  const Listener listener("127.0.0.1:0", true);
  const std::string large(std::size_t{32} << 20, 'x');
  using std::chrono::milliseconds;
  const HttpServer server(listener, [&](const HttpRequest&) { return HttpResponse{.body = large}; },
                          {milliseconds(200), milliseconds(200)});
  Raw slow(listener.address());
  EXPECT_TRUE(slow.send("GET / HT"));
  Raw deaf(listener.address());
  EXPECT_TRUE(deaf.send(good));
  EXPECT_EQ(slow.rest(), "");
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(deaf.rest().size(), large.size());
}

TEST(Server, WantsItsToken) {
  const Server server("127.0.0.1:0", "secret", content());
  httplib::Client client("http://" + server.address());
  for (const char* path : {"/metrics", "/api/v1/runs", "/api/v1/history/3"}) {
    EXPECT_EQ(client.Get(path)->status, 401) << path;
    EXPECT_EQ(client.Get(path, {{"Authorization", "Bearer secreT"}})->status, 401) << path;
    EXPECT_EQ(client.Get(path, {{"Authorization", "Bearer secret"}})->status, 200) << path;
  }
  EXPECT_EQ(client.Get("/health")->status, 200);
  EXPECT_EQ(client.Get("/")->status, 200);
}

TEST(Server, RefusesWhereItMustNotListen) {
  EXPECT_THROW(Server("0.0.0.0:0", "", content()), std::runtime_error);
  EXPECT_NO_THROW(Server("0.0.0.0:0", "secret", content()));
  for (const char* wrong : {"", "9464", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", ":1"}) {
    EXPECT_THROW(Server(wrong, "", content()), std::runtime_error) << wrong;
  }
  const Server first("127.0.0.1:0", "", content());
  EXPECT_THROW(Server(first.address(), "", content()), std::runtime_error);
}

}  // namespace
}  // namespace cinch::daemon
