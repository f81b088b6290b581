package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var archRefusals = []Refusal{
	{unix.SYS_CREATE_MODULE, "create_module", legacy},
	{unix.SYS_GET_KERNEL_SYMS, "get_kernel_syms", legacy},
	{unix.SYS_IOPERM, "ioperm", ports},
	{unix.SYS_IOPL, "iopl", ports},
	{unix.SYS_MODIFY_LDT, "modify_ldt", legacy},
	{unix.SYS_QUERY_MODULE, "query_module", legacy},
	{unix.SYS_SYSFS, "sysfs", legacy},
	{unix.SYS__SYSCTL, "_sysctl", legacy},
	{unix.SYS_USELIB, "uselib", legacy},
	{unix.SYS_USTAT, "ustat", legacy},
}
