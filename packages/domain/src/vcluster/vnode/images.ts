/** Images that are made on the node, of components, and that every worker has. Nobody pulls them. */
export const IMAGES = {
  pause: "gpve.local/pause:1",
  busybox: "gpve.local/busybox:1",
  coredns: "gpve.local/coredns:1",
  traefik: "gpve.local/traefik:1",
} as const;

/** What workers of a cluster with a controller for Ingresses are made of as well. */
export const INGRESS_COMPONENT = "traefik";

/** What a worker is made of, beside Kubernetes itself. */
export const WORKER_COMPONENTS = ["containerd", "runc", "cni-plugins", "coredns", "busybox"] as const;
