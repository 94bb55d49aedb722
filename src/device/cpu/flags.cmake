# The loops of the CPU backend are written to vectorise: branch-free, marked with omp simd, sums in fixed lanes. What g++
# still needs for that is leave to ignore errno and floating-point traps. NaN and infinity keep their meaning.
file(GLOB cpu_kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cpu/*.cpp)
set_source_files_properties(${cpu_kernel_sources} PROPERTIES COMPILE_OPTIONS
  "-O3;-fno-math-errno;-fno-trapping-math;-fopenmp-simd")
