# The whole program: what it says and leaves behind when started by a user. Python drives, mpirun launches.
if(NOT TARGET trireme)
  return()
endif()
function(trireme_system_test name script)
  add_test(NAME system.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/system/${script}.py ${ARGN}
                                       $<TARGET_FILE:trireme> ${mpi_run} ${MPIEXEC_NUMPROC_FLAG})
  set_tests_properties(system.${name} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endfunction()

foreach(script commands bad_inputs endings resume)
  trireme_system_test(${script} ${script})
endforeach()
if(NOT TRIREME_SANITIZE)  # shadow memory is not planned
  trireme_system_test(memory memory)
  trireme_system_test(memory.all memory --all)
  set_tests_properties(system.memory.all PROPERTIES LABELS slow)
endif()
trireme_system_test(resume.all resume --all)
set_tests_properties(system.resume.all PROPERTIES LABELS slow)
