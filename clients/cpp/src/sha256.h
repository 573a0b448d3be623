#ifndef XLASHAPE_SRC_SHA256_H_
#define XLASHAPE_SRC_SHA256_H_

#include <openssl/sha.h>

#include <string>
#include <string_view>

namespace xlashape {

/// The SHA-256 of some bytes in hexadecimal.
inline std::string Sha256(std::string_view data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest);
  std::string text;
  for (const unsigned char byte : digest) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}

}  // namespace xlashape

#endif  // XLASHAPE_SRC_SHA256_H_
