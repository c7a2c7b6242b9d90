/** Images that are made on the node, of components, and that every worker has. Nobody pulls them. */
export const IMAGES = {
  pause: "gpve.local/pause:1",
  busybox: "gpve.local/busybox:1",
  coredns: "gpve.local/coredns:1",
} as const;

/** What a worker is made of, beside Kubernetes itself. */
export const WORKER_COMPONENTS = ["containerd", "runc", "cni-plugins", "coredns", "busybox"] as const;
