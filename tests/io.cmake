# Checkpoints on several ranks, and their files in the hands of h5py. MPI's own main() is that of the communicator tests.
add_executable(mpi_io mpi/io/checkpoint.cpp mpi/comm/main.cpp mpi/comm/job.cpp)
target_link_libraries(mpi_io PRIVATE trireme_catch trireme_io)
foreach(ranks 1 2 3 4 5)
  add_test(NAME mpi.io.${ranks} COMMAND ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:mpi_io>)
  set_tests_properties(mpi.io.${ranks} PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS 2 ENVIRONMENT "${mpi_env}")
endforeach()

# The first Python that has h5py; the test is skipped where none has.
set(python_with_h5py ${Python3_EXECUTABLE})
find_program(system_python3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
foreach(candidate ${Python3_EXECUTABLE} ${system_python3})
  execute_process(COMMAND ${candidate} -c "import h5py" RESULT_VARIABLE lacks_h5py OUTPUT_QUIET ERROR_QUIET)
  if(lacks_h5py EQUAL 0)
    set(python_with_h5py ${candidate})
    break()
  endif()
endforeach()
add_executable(io_write_example mpi/io/h5py/write_example.cpp)
target_link_libraries(io_write_example PRIVATE trireme_io)
add_test(NAME mpi.io.h5py COMMAND ${python_with_h5py} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/io/h5py/read_example.py
                                  ${mpi_run} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:io_write_example>)
set_tests_properties(mpi.io.h5py PROPERTIES LABELS mpi TIMEOUT 120 SKIP_RETURN_CODE 77 ENVIRONMENT "${mpi_env}")
