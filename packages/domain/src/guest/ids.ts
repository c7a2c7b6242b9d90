// Names of things: made up, or made from others. Functions, as they are handed on.

export interface Ids {
  readonly newUuid: () => string;
  /** With the datacenter's prefix. */
  readonly newMac: () => string;
  readonly sha256Hex: (text: string) => string;
}
