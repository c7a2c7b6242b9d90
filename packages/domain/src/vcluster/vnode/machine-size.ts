// What the machine of an L3 worker has at least.

/** Less, and a kernel, a kubelet and containerd leave nothing for pods. */
export const LEAST_MACHINE_BYTES = 768 * 2 ** 20;
