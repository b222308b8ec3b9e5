/* Lets every program of a node that asks libc for the kernel's release hear another one: a container shares the kernel
 * of the machine below, and no distribution has headers for that. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{
	if (syscall(SYS_uname, name))
		return -1;
	strncpy(name->release, RELEASE, sizeof name->release - 1);
	return 0;
}
