# Rules of the code itself. The reference deck is compared with the program in unit.deck.
add_test(NAME style.includes COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/check_includes.py ${PROJECT_SOURCE_DIR})
set_tests_properties(style.includes PROPERTIES LABELS unit)
