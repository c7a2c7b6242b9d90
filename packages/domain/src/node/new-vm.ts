// What a server calls to have a VM made that PVE's method cannot describe.

export const NEW_VM_ROUTE = "POST /gpve/nodes/{node}/virtual-machines";
