/** Nobody outside: clusters of this and other nodes, this machine, what the network says of a machine, and multicast. */
export const NOT_OUTSIDE: readonly string[] = [
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/3",
];
