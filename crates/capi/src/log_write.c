/*
 * The one function with printf arguments: stable Rust cannot define those. It formats into a buffer on the stack, longer
 * texts are cut, and hands the text over. Reached under its public name through src/log.rs.
 */
#include <stdarg.h>
#include <stdio.h>

#define TEXT_BYTES_MAX 4096

void kt_log_text(int level, const char *file, int line, const char *text);

__attribute__((visibility("hidden"))) void kingtide_capi_log_write(int level, const char *file, int line,
                                                                   const char *fmt, ...);

void kingtide_capi_log_write(int level, const char *file, int line, const char *fmt, ...) {
    char text[TEXT_BYTES_MAX];
    va_list arguments;
    int length;

    if (fmt == NULL) {
        return;
    }
    va_start(arguments, fmt);
    length = vsnprintf(text, sizeof text, fmt, arguments);
    va_end(arguments);
    if (length >= 0) {
        kt_log_text(level, file, line, text);
    }
}
