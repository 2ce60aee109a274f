# Writes OUTPUT, a source that holds the text of INPUT: cmake -DINPUT=... -DOUTPUT=... -P embed_page.cmake
file(READ "${INPUT}" text)
string(FIND "${text}" ")REPRISE\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${INPUT} holds the end of a raw string")
endif()
file(WRITE "${OUTPUT}" "#include \"server/page.h\"\n\nnamespace reprise::server {\n\nstd::string_view page_html() {\n"
                       "  return R\"REPRISE(${text})REPRISE\";\n}\n\n}  // namespace reprise::server\n")
