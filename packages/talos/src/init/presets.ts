// Sizes of clusters that people start with.

export interface Preset {
  readonly about: string;
  readonly controlPlanes: number;
  readonly workers: number;
  readonly controlPlane: { readonly cores: number; readonly memoryMiB: number; readonly diskGiB: number };
  readonly worker: { readonly cores: number; readonly memoryMiB: number; readonly diskGiB: number };
  /** An address that moves between control planes. */
  readonly hasVip: boolean;
  readonly protectsFromDestroy: boolean;
  /** Cilium, cloud controllers and what production has; else only what Talos brings. */
  readonly hasAddons: boolean;
}

export const presetNames = ["lab", "dev", "production"] as const;
export type PresetName = (typeof presetNames)[number];

export const presets: Readonly<Record<PresetName, Preset>> = {
  lab: {
    about: "one small control plane and one worker, to look at",
    controlPlanes: 1,
    workers: 1,
    controlPlane: { cores: 2, memoryMiB: 2048, diskGiB: 20 },
    worker: { cores: 2, memoryMiB: 2048, diskGiB: 20 },
    hasVip: false,
    protectsFromDestroy: false,
    hasAddons: false,
  },
  dev: {
    about: "one control plane and two workers, to develop on",
    controlPlanes: 1,
    workers: 2,
    controlPlane: { cores: 2, memoryMiB: 4096, diskGiB: 40 },
    worker: { cores: 4, memoryMiB: 8192, diskGiB: 80 },
    hasVip: false,
    protectsFromDestroy: false,
    hasAddons: true,
  },
  production: {
    about: "three control planes behind a VIP and three workers, to rely on",
    controlPlanes: 3,
    workers: 3,
    controlPlane: { cores: 4, memoryMiB: 8192, diskGiB: 40 },
    worker: { cores: 4, memoryMiB: 16_384, diskGiB: 80 },
    hasVip: true,
    protectsFromDestroy: true,
    hasAddons: true,
  },
};
