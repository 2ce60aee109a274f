#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

namespace reprise::server {

/// A socket driven by hand, so that tests can send what no client library would.
class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int connected = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    EXPECT_EQ(connected, 0) << std::strerror(errno);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False when the server takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  /// Some bytes; empty at the end, or when none come in time.
  std::string receive(std::chrono::milliseconds limit = std::chrono::minutes(1)) {
    pollfd wanted{socket_, POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(limit.count())) <= 0) return {};
    char buffer[65536];
    const ssize_t got = ::recv(socket_, buffer, sizeof(buffer), 0);
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : std::string();
  }
  /// Reads until the text has come (it is part of the result), or nothing more does.
  std::string receive_until(std::string_view text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      const std::string more = receive();
      if (more.empty()) break;
      all += more;
    }
    return all;
  }
  std::string receive_all() {
    std::string all;
    for (std::string more = receive(); !more.empty(); more = receive()) all += more;
    return all;
  }
  /// One response with a Content-Length: its head and body.
  std::string receive_response() {
    std::string all = receive_until("\r\n\r\n");
    const size_t head = all.find("\r\n\r\n");
    const size_t field = all.find("Content-Length: ");
    if (head == std::string::npos || field == std::string::npos || field > head) return all;
    const size_t length = std::stoul(all.substr(field + 16));
    while (all.size() < head + 4 + length) {
      const std::string more = receive();
      if (more.empty()) break;
      all += more;
    }
    return all;
  }
  std::string ask(std::string_view request) {
    send(request);
    return receive_response();
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  /// True once the server has closed.
  bool closed_by_server() { return receive(std::chrono::seconds(5)).empty(); }

 private:
  int socket_;
};

}  // namespace reprise::server
