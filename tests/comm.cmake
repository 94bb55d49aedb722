# Communicators on several ranks, and how jobs end.
set(mpi_comm_env ${mpi_env})
if(TRIREME_SANITIZE)
  list(APPEND mpi_comm_env "ASAN_OPTIONS=detect_leaks=0")  # Open MPI leaves its own
endif()

file(GLOB mpi_comm_sources CONFIGURE_DEPENDS mpi/comm/*.cpp)
add_executable(mpi_comm ${mpi_comm_sources})
target_link_libraries(mpi_comm PRIVATE trireme_catch trireme_comm)
foreach(ranks 1 2 3 4 5 8)
  add_test(NAME mpi.comm.${ranks} COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:mpi_comm>)
  set_tests_properties(mpi.comm.${ranks} PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2 ENVIRONMENT "${mpi_comm_env}")
endforeach()

# The same on GPUs: NCCL, and MPI staged through pinned memory. Messages of wrong sizes are MPI's to notice.
if(TRIREME_WITH_CUDA)
  foreach(ranks 1 2)
    add_test(NAME mpi.comm.cuda.${ranks}
             COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:mpi_comm> --cuda ~[mpi])
    set_tests_properties(mpi.comm.cuda.${ranks} PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300 ENVIRONMENT "${mpi_comm_env}")
  endforeach()
endif()

add_executable(mpi_comm_endings mpi/comm/endings/endings.cpp)
target_link_libraries(mpi_comm_endings PRIVATE trireme_comm)
add_test(NAME mpi.comm.endings
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/comm/endings/endings.py
                 $<TARGET_FILE:mpi_comm_endings> ${mpi_run} ${MPIEXEC_NUMPROC_FLAG})
set_tests_properties(mpi.comm.endings PROPERTIES LABELS mpi TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${mpi_comm_env}")

if(TARGET unit_comm)
  target_include_directories(unit_comm PRIVATE ${PROJECT_SOURCE_DIR}/src)  # the staging of MPI has no public header
  target_link_libraries(unit_comm PRIVATE MPI::MPI_CXX)
  if(NOT TRIREME_WITH_CUDA)
    target_sources(unit_comm PRIVATE unit/comm/no_nccl/no_nccl.cpp)
  endif()
endif()
