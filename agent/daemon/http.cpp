// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/http.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <optional>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cinch::daemon {
namespace {

using Clock = std::chrono::steady_clock;

/// Limits, after the answer, on how long a client may stay connected and how much it may send.
constexpr std::chrono::seconds parting_time{1};
constexpr std::size_t most_parting_bytes = std::size_t{256} << 10;

bool is_loopback(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address) != 0;
}

bool is_loopback(const in_addr& address) {
  return ntohl(address.s_addr) >> 24 == 127;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return is_loopback(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  return address.sa_family == AF_INET6 &&
         is_loopback(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

/// Parses a port's number; nothing when `text` is none.
std::optional<int> port_of(std::string_view text) {
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc{} || at != end || port < 0 || port > 65535) return std::nullopt;
  return port;
}

struct HostAndPort {
  std::string host;
  std::optional<int> port;
};

/// "HOST", "HOST:PORT", "[SIX]:PORT"; nothing when it is none of these.
std::optional<HostAndPort> parse_address(std::string_view text) {
  HostAndPort address;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return std::nullopt;
    address.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    address.host = text.substr(0, end);
    text.remove_prefix(end);
  }
  if (address.host.empty()) return std::nullopt;
  if (text.empty()) return address;
  address.port = text.front() == ':' ? port_of(text.substr(1)) : std::nullopt;
  if (!address.port) return std::nullopt;
  return address;
}

int port_of_socket(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

/// Whether a failed call has to be made again when the socket is ready.
bool is_not_ready(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Listener::Listener(const std::string& address, bool loopback_only) {
  const auto parsed = parse_address(address);
  if (!parsed || !parsed->port) {
    throw std::runtime_error("found the address \"" + address +
                             "\", expected HOST:PORT, such as 127.0.0.1:9464");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(*parsed->port);
  if (getaddrinfo(parsed->host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, [](addrinfo* info) {
    if (info != nullptr) freeaddrinfo(info);
  });
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (loopback_only && !is_loopback(*info->ai_addr)) {
      throw std::runtime_error("listening on " + parsed->host +
                               " shows your runs to the network: set CINCH_AGENT_TOKEN to a secret "
                               "that readers have to send, or listen on 127.0.0.1");
    }
  }
  for (const addrinfo* info = found; info != nullptr && socket_ < 0; info = info->ai_next) {
    socket_ = ::socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       info->ai_protocol);
    if (socket_ < 0) continue;
    const int yes = 1;  // not SO_REUSEPORT: two agents would share one port
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket_, info->ai_addr, info->ai_addrlen) == 0 && listen(socket_, SOMAXCONN) == 0) {
      break;
    }
    close(socket_);
    socket_ = -1;
  }
  if (socket_ < 0) {
    throw std::runtime_error("cannot listen on " + address +
                             ": is another agent running, or is the address not this machine's?");
  }
  const bool six = parsed->host.find(':') != std::string::npos;
  address_ = (six ? "[" + parsed->host + "]" : parsed->host) + ':' +
             std::to_string(port_of_socket(socket_));
}

Listener::~Listener() {
  close(socket_);
}

bool names_loopback(std::string_view host_field) {
  const auto address = parse_address(host_field);
  if (!address) return false;
  // Only complete numeric addresses count: a name such as 127.0.0.1.example.com does not pass.
  in_addr four{};
  if (inet_pton(AF_INET, address->host.c_str(), &four) == 1) return is_loopback(four);
  in6_addr six{};
  if (inet_pton(AF_INET6, address->host.c_str(), &six) == 1) return is_loopback(six);
  return lower(address->host) == "localhost";
}

class HttpServer::Loop {
 public:
  Loop(const Listener& listener, Handler handler, Times times)
      : listener_(listener.socket()),
        handler_(std::move(handler)),
        times_(times),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0) throw std::runtime_error(std::string("no eventfd: ") + std::strerror(errno));
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t count = write(wake_, &one, sizeof one);
    thread_.join();
    for (const Connection& connection : connections_) close(connection.socket);
    close(wake_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  struct Connection {
    enum class Stage : std::uint8_t { reading, writing, parting, over };
    int socket;
    Clock::time_point end;  ///< deadline of this stage
    Stage stage = Stage::reading;
    std::string bytes = {};  ///< of the request, then of the answer
    std::size_t written = 0;
    std::size_t unread = 0;  // bytes that came after the answer
  };
  using Stage = Connection::Stage;

  void run() {
    for (;;) {
      std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      // After running out of descriptors, do not accept for a while.
      const bool accepts = Clock::now() >= accept_from_;
      if (!accepts) polled[1].fd = -1;
      Clock::time_point next = accepts ? Clock::time_point::max() : accept_from_;
      for (const Connection& connection : connections_) {
        const bool writes = connection.stage == Stage::writing;
        polled.push_back({connection.socket, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
        next = std::min(next, connection.end);
      }
      if (poll(polled.data(), polled.size(), until(next)) < 0 && errno != EINTR) {
        accept_from_ = Clock::now() + std::chrono::milliseconds(100);  // no memory
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        continue;
      }
      if (polled[0].revents != 0) return;
      const Clock::time_point now = Clock::now();
      std::size_t i = 2;
      for (Connection& connection : connections_) {
        if (polled[i++].revents != 0) go_on(connection);
        if (now >= connection.end) connection.stage = Stage::over;
      }
      std::erase_if(connections_, [](const Connection& connection) {
        if (connection.stage != Stage::over) return false;
        close(connection.socket);
        return true;
      });
      if (polled[1].revents != 0) accept_all();
    }
  }

  static int until(Clock::time_point time) {
    if (time == Clock::time_point::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }

  void accept_all() {
    // Bounded, so that existing connections are served in between.
    for (std::size_t i = 0; i < most_connections; ++i) {
      const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket < 0) {
        const bool none_left =
            errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        if (none_left) accept_from_ = Clock::now() + std::chrono::milliseconds(100);
        return;
      }
      if (connections_.size() >= most_connections) make_room();
      connections_.push_back({socket, Clock::now() + times_.request});
    }
  }

  /// Closes the connection with the earliest deadline, one that is being answered only if all are.
  void make_room() {
    const auto worst = std::ranges::min_element(connections_, {}, [](const Connection& c) {
      return std::pair(c.stage == Stage::writing, c.end);
    });
    close(worst->socket);
    connections_.erase(worst);
  }

  void go_on(Connection& connection) {
    try {
      if (connection.stage == Stage::reading) read_some(connection);
      if (connection.stage == Stage::writing) write_some(connection);
      if (connection.stage == Stage::parting) part(connection);
    } catch (const std::exception&) {
      connection.stage = Stage::over;  // no memory
    }
  }

  void read_some(Connection& connection) {
    char chunk[4096];
    const ssize_t count = recv(connection.socket, chunk, sizeof chunk, 0);
    if (count <= 0) {
      if (count == 0 || !is_not_ready(errno)) connection.stage = Stage::over;
      return;
    }
    std::string& bytes = connection.bytes;
    const std::size_t looked_at = std::max<std::size_t>(bytes.size(), 3) - 3;
    bytes.append(chunk, static_cast<std::size_t>(count));
    const std::size_t end = bytes.find("\r\n\r\n", looked_at);
    if (std::min(end, bytes.size()) > most_request_bytes) {
      answer(connection, {431, {}});
    } else if (end != bytes.npos) {
      answer(connection, parse_head(std::string_view(bytes).substr(0, end)));
    }
  }

  void answer(Connection& connection, const ParsedHead& parsed) {
    HttpResponse response;
    response.status = parsed.status;
    if (parsed.status == 0) {
      try {
        response = handler_(parsed.request);
      } catch (const std::exception& error) {
        response = {.status = 500, .body = std::string(error.what()) + '\n'};
      }
    } else {
      response.body = std::string(reason_of(parsed.status)) + '\n';
    }
    connection.bytes = text_of(response, parsed.request.method != "HEAD");
    connection.stage = Stage::writing;
    connection.end = Clock::now() + times_.answer;
  }

  static void write_some(Connection& connection) {
    const std::string_view left = std::string_view(connection.bytes).substr(connection.written);
    const ssize_t count = send(connection.socket, left.data(), left.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (!is_not_ready(errno)) connection.stage = Stage::over;
      return;
    }
    connection.written += static_cast<std::size_t>(count);
    if (static_cast<std::size_t>(count) < left.size()) return;
    // Closing while the client still sends would reset the connection, and lose the answer.
    shutdown(connection.socket, SHUT_WR);
    connection.bytes = {};
    connection.stage = Stage::parting;
    connection.end = Clock::now() + parting_time;
  }

  static void part(Connection& connection) {
    char unread[4096];
    const ssize_t count = recv(connection.socket, unread, sizeof unread, 0);
    if (count > 0) connection.unread += static_cast<std::size_t>(count);
    const bool is_over = count == 0 || (count < 0 && !is_not_ready(errno));
    if (is_over || connection.unread > most_parting_bytes) connection.stage = Stage::over;
  }

  const int listener_;
  const Handler handler_;
  const Times times_;
  const int wake_;
  std::list<Connection> connections_;
  Clock::time_point accept_from_ = Clock::time_point::min();
  std::thread thread_;
};

HttpServer::HttpServer(const Listener& listener, Handler handler, Times times)
    : loop_(std::make_unique<Loop>(listener, std::move(handler), times)) {}

HttpServer::~HttpServer() = default;

}  // namespace cinch::daemon
