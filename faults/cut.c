/* Simulates a power cut: shuts a file system down without writing its pending data. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define GOING_DOWN _IOR('X', 125, uint32_t)

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: cut <directory> <1: flush the log | 2: flush nothing>\n");
    return 2;
  }
  int directory = open(argv[1], O_RDONLY | O_DIRECTORY);
  uint32_t flag = (uint32_t)atoi(argv[2]);
  if (directory < 0 || ioctl(directory, GOING_DOWN, &flag) != 0) {
    perror(argv[1]);
    return 1;
  }
  return 0;
}
