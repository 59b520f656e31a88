/* Reads the options that create is given: one flat JSON object, checked by the host against the
 * policy's options_schema. C99 and C++17; optional, a plugin may read the text in any other way.
 *
 * Each getter gives the fallback when the key is absent or its value is of another type. Nothing is
 * allocated; malformed text reads as an object without keys.
 */

#ifndef TROUPE_POLICY_OPTIONS_H
#define TROUPE_POLICY_OPTIONS_H

#include "schedulers/plugin/policy_abi.h"

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline const char* troupe_json_blank(const char* at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
    ++at;
  return at;
}

/* Past the string that begins at `at`, or NULL when it does not end. @pre *at is a quote */
static inline const char* troupe_json_past_string(const char* at) {
  for (++at; *at != '"'; ++at) {
    if (*at == '\\') ++at;
    if (*at == '\0') return NULL;
  }
  return at + 1;
}

/* Past the value that begins at `at`, nested ones included, or NULL when it does not end. */
static inline const char* troupe_json_past_value(const char* at) {
  size_t depth = 0;
  for (;;) {
    if (*at == '\0') return NULL;
    if (depth == 0 && (*at == ',' || *at == '}' || *at == ']')) return at;
    if (*at == '"') {
      at = troupe_json_past_string(at);
      if (at == NULL) return NULL;
      continue;
    }
    if (*at == '{' || *at == '[') ++depth;
    if (*at == '}' || *at == ']') --depth;
    ++at;
  }
}

/* Begin of the value of `key` in the outermost object, or NULL. Keys are compared as written. */
static inline const char* troupe_option(const char* options, const char* key) {
  const size_t key_len = strlen(key);
  const char* at = troupe_json_blank(options);
  if (*at != '{') return NULL;
  at = troupe_json_blank(at + 1);
  while (*at == '"') {
    const char* begin = at + 1;
    int found;
    at = troupe_json_past_string(at);
    if (at == NULL) return NULL;
    found = (size_t)(at - 1 - begin) == key_len && memcmp(begin, key, key_len) == 0;
    at = troupe_json_blank(at);
    if (*at != ':') return NULL;
    at = troupe_json_blank(at + 1);
    if (found) return at;
    at = troupe_json_past_value(at);
    if (at == NULL || *at != ',') return NULL;
    at = troupe_json_blank(at + 1);
  }
  return NULL;
}

static inline int troupe_json_is_number(const char* at) {
  return at != NULL && (*at == '-' || (*at >= '0' && *at <= '9'));
}

/* A whole number; beyond the int64 range its nearest end. */
static inline int64_t troupe_option_integer(const char* options, const char* key,
                                            int64_t fallback) {
  const char* at = troupe_option(options, key);
  return troupe_json_is_number(at) ? (int64_t)strtoll(at, NULL, 10) : fallback;
}

/* A number as thousandths, to the nearest: 1.5 gives 1500. Decisions use integers only. */
static inline int64_t troupe_option_thousandths(const char* options, const char* key,
                                                int64_t fallback) {
  const char* at = troupe_option(options, key);
  return troupe_json_is_number(at) ? troupe_score(strtod(at, NULL) * 1000.0) : fallback;
}

/* 1 or 0. */
static inline int troupe_option_boolean(const char* options, const char* key, int fallback) {
  const char* at = troupe_option(options, key);
  if (at != NULL && strncmp(at, "true", 4) == 0) return 1;
  if (at != NULL && strncmp(at, "false", 5) == 0) return 0;
  return fallback;
}

/* Whether the value is the string `word`: for options that are one of a few words. */
static inline int troupe_option_is(const char* options, const char* key, const char* word) {
  const size_t len = strlen(word);
  const char* at = troupe_option(options, key);
  return at != NULL && *at == '"' && strncmp(at + 1, word, len) == 0 && at[1 + len] == '"';
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TROUPE_POLICY_OPTIONS_H */
