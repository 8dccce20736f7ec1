//! Three hundred fields, and thirty levels.

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 362])]
struct Wide {
    #[layer(out = 64)]
    f0: Linear,
    f1: Relu,
    #[layer(out = 66)]
    f2: Linear,
    f3: Relu,
    #[layer(out = 68)]
    f4: Linear,
    f5: Relu,
    #[layer(out = 70)]
    f6: Linear,
    f7: Relu,
    #[layer(out = 72)]
    f8: Linear,
    f9: Relu,
    #[layer(out = 74)]
    f10: Linear,
    f11: Relu,
    #[layer(out = 76)]
    f12: Linear,
    f13: Relu,
    #[layer(out = 78)]
    f14: Linear,
    f15: Relu,
    #[layer(out = 80)]
    f16: Linear,
    f17: Relu,
    #[layer(out = 82)]
    f18: Linear,
    f19: Relu,
    #[layer(out = 84)]
    f20: Linear,
    f21: Relu,
    #[layer(out = 86)]
    f22: Linear,
    f23: Relu,
    #[layer(out = 88)]
    f24: Linear,
    f25: Relu,
    #[layer(out = 90)]
    f26: Linear,
    f27: Relu,
    #[layer(out = 92)]
    f28: Linear,
    f29: Relu,
    #[layer(out = 94)]
    f30: Linear,
    f31: Relu,
    #[layer(out = 96)]
    f32: Linear,
    f33: Relu,
    #[layer(out = 98)]
    f34: Linear,
    f35: Relu,
    #[layer(out = 100)]
    f36: Linear,
    f37: Relu,
    #[layer(out = 102)]
    f38: Linear,
    f39: Relu,
    #[layer(out = 104)]
    f40: Linear,
    f41: Relu,
    #[layer(out = 106)]
    f42: Linear,
    f43: Relu,
    #[layer(out = 108)]
    f44: Linear,
    f45: Relu,
    #[layer(out = 110)]
    f46: Linear,
    f47: Relu,
    #[layer(out = 112)]
    f48: Linear,
    f49: Relu,
    #[layer(out = 114)]
    f50: Linear,
    f51: Relu,
    #[layer(out = 116)]
    f52: Linear,
    f53: Relu,
    #[layer(out = 118)]
    f54: Linear,
    f55: Relu,
    #[layer(out = 120)]
    f56: Linear,
    f57: Relu,
    #[layer(out = 122)]
    f58: Linear,
    f59: Relu,
    #[layer(out = 124)]
    f60: Linear,
    f61: Relu,
    #[layer(out = 126)]
    f62: Linear,
    f63: Relu,
    #[layer(out = 128)]
    f64: Linear,
    f65: Relu,
    #[layer(out = 130)]
    f66: Linear,
    f67: Relu,
    #[layer(out = 132)]
    f68: Linear,
    f69: Relu,
    #[layer(out = 134)]
    f70: Linear,
    f71: Relu,
    #[layer(out = 136)]
    f72: Linear,
    f73: Relu,
    #[layer(out = 138)]
    f74: Linear,
    f75: Relu,
    #[layer(out = 140)]
    f76: Linear,
    f77: Relu,
    #[layer(out = 142)]
    f78: Linear,
    f79: Relu,
    #[layer(out = 144)]
    f80: Linear,
    f81: Relu,
    #[layer(out = 146)]
    f82: Linear,
    f83: Relu,
    #[layer(out = 148)]
    f84: Linear,
    f85: Relu,
    #[layer(out = 150)]
    f86: Linear,
    f87: Relu,
    #[layer(out = 152)]
    f88: Linear,
    f89: Relu,
    #[layer(out = 154)]
    f90: Linear,
    f91: Relu,
    #[layer(out = 156)]
    f92: Linear,
    f93: Relu,
    #[layer(out = 158)]
    f94: Linear,
    f95: Relu,
    #[layer(out = 160)]
    f96: Linear,
    f97: Relu,
    #[layer(out = 162)]
    f98: Linear,
    f99: Relu,
    #[layer(out = 164)]
    f100: Linear,
    f101: Relu,
    #[layer(out = 166)]
    f102: Linear,
    f103: Relu,
    #[layer(out = 168)]
    f104: Linear,
    f105: Relu,
    #[layer(out = 170)]
    f106: Linear,
    f107: Relu,
    #[layer(out = 172)]
    f108: Linear,
    f109: Relu,
    #[layer(out = 174)]
    f110: Linear,
    f111: Relu,
    #[layer(out = 176)]
    f112: Linear,
    f113: Relu,
    #[layer(out = 178)]
    f114: Linear,
    f115: Relu,
    #[layer(out = 180)]
    f116: Linear,
    f117: Relu,
    #[layer(out = 182)]
    f118: Linear,
    f119: Relu,
    #[layer(out = 184)]
    f120: Linear,
    f121: Relu,
    #[layer(out = 186)]
    f122: Linear,
    f123: Relu,
    #[layer(out = 188)]
    f124: Linear,
    f125: Relu,
    #[layer(out = 190)]
    f126: Linear,
    f127: Relu,
    #[layer(out = 192)]
    f128: Linear,
    f129: Relu,
    #[layer(out = 194)]
    f130: Linear,
    f131: Relu,
    #[layer(out = 196)]
    f132: Linear,
    f133: Relu,
    #[layer(out = 198)]
    f134: Linear,
    f135: Relu,
    #[layer(out = 200)]
    f136: Linear,
    f137: Relu,
    #[layer(out = 202)]
    f138: Linear,
    f139: Relu,
    #[layer(out = 204)]
    f140: Linear,
    f141: Relu,
    #[layer(out = 206)]
    f142: Linear,
    f143: Relu,
    #[layer(out = 208)]
    f144: Linear,
    f145: Relu,
    #[layer(out = 210)]
    f146: Linear,
    f147: Relu,
    #[layer(out = 212)]
    f148: Linear,
    f149: Relu,
    #[layer(out = 214)]
    f150: Linear,
    f151: Relu,
    #[layer(out = 216)]
    f152: Linear,
    f153: Relu,
    #[layer(out = 218)]
    f154: Linear,
    f155: Relu,
    #[layer(out = 220)]
    f156: Linear,
    f157: Relu,
    #[layer(out = 222)]
    f158: Linear,
    f159: Relu,
    #[layer(out = 224)]
    f160: Linear,
    f161: Relu,
    #[layer(out = 226)]
    f162: Linear,
    f163: Relu,
    #[layer(out = 228)]
    f164: Linear,
    f165: Relu,
    #[layer(out = 230)]
    f166: Linear,
    f167: Relu,
    #[layer(out = 232)]
    f168: Linear,
    f169: Relu,
    #[layer(out = 234)]
    f170: Linear,
    f171: Relu,
    #[layer(out = 236)]
    f172: Linear,
    f173: Relu,
    #[layer(out = 238)]
    f174: Linear,
    f175: Relu,
    #[layer(out = 240)]
    f176: Linear,
    f177: Relu,
    #[layer(out = 242)]
    f178: Linear,
    f179: Relu,
    #[layer(out = 244)]
    f180: Linear,
    f181: Relu,
    #[layer(out = 246)]
    f182: Linear,
    f183: Relu,
    #[layer(out = 248)]
    f184: Linear,
    f185: Relu,
    #[layer(out = 250)]
    f186: Linear,
    f187: Relu,
    #[layer(out = 252)]
    f188: Linear,
    f189: Relu,
    #[layer(out = 254)]
    f190: Linear,
    f191: Relu,
    #[layer(out = 256)]
    f192: Linear,
    f193: Relu,
    #[layer(out = 258)]
    f194: Linear,
    f195: Relu,
    #[layer(out = 260)]
    f196: Linear,
    f197: Relu,
    #[layer(out = 262)]
    f198: Linear,
    f199: Relu,
    #[layer(out = 264)]
    f200: Linear,
    f201: Relu,
    #[layer(out = 266)]
    f202: Linear,
    f203: Relu,
    #[layer(out = 268)]
    f204: Linear,
    f205: Relu,
    #[layer(out = 270)]
    f206: Linear,
    f207: Relu,
    #[layer(out = 272)]
    f208: Linear,
    f209: Relu,
    #[layer(out = 274)]
    f210: Linear,
    f211: Relu,
    #[layer(out = 276)]
    f212: Linear,
    f213: Relu,
    #[layer(out = 278)]
    f214: Linear,
    f215: Relu,
    #[layer(out = 280)]
    f216: Linear,
    f217: Relu,
    #[layer(out = 282)]
    f218: Linear,
    f219: Relu,
    #[layer(out = 284)]
    f220: Linear,
    f221: Relu,
    #[layer(out = 286)]
    f222: Linear,
    f223: Relu,
    #[layer(out = 288)]
    f224: Linear,
    f225: Relu,
    #[layer(out = 290)]
    f226: Linear,
    f227: Relu,
    #[layer(out = 292)]
    f228: Linear,
    f229: Relu,
    #[layer(out = 294)]
    f230: Linear,
    f231: Relu,
    #[layer(out = 296)]
    f232: Linear,
    f233: Relu,
    #[layer(out = 298)]
    f234: Linear,
    f235: Relu,
    #[layer(out = 300)]
    f236: Linear,
    f237: Relu,
    #[layer(out = 302)]
    f238: Linear,
    f239: Relu,
    #[layer(out = 304)]
    f240: Linear,
    f241: Relu,
    #[layer(out = 306)]
    f242: Linear,
    f243: Relu,
    #[layer(out = 308)]
    f244: Linear,
    f245: Relu,
    #[layer(out = 310)]
    f246: Linear,
    f247: Relu,
    #[layer(out = 312)]
    f248: Linear,
    f249: Relu,
    #[layer(out = 314)]
    f250: Linear,
    f251: Relu,
    #[layer(out = 316)]
    f252: Linear,
    f253: Relu,
    #[layer(out = 318)]
    f254: Linear,
    f255: Relu,
    #[layer(out = 320)]
    f256: Linear,
    f257: Relu,
    #[layer(out = 322)]
    f258: Linear,
    f259: Relu,
    #[layer(out = 324)]
    f260: Linear,
    f261: Relu,
    #[layer(out = 326)]
    f262: Linear,
    f263: Relu,
    #[layer(out = 328)]
    f264: Linear,
    f265: Relu,
    #[layer(out = 330)]
    f266: Linear,
    f267: Relu,
    #[layer(out = 332)]
    f268: Linear,
    f269: Relu,
    #[layer(out = 334)]
    f270: Linear,
    f271: Relu,
    #[layer(out = 336)]
    f272: Linear,
    f273: Relu,
    #[layer(out = 338)]
    f274: Linear,
    f275: Relu,
    #[layer(out = 340)]
    f276: Linear,
    f277: Relu,
    #[layer(out = 342)]
    f278: Linear,
    f279: Relu,
    #[layer(out = 344)]
    f280: Linear,
    f281: Relu,
    #[layer(out = 346)]
    f282: Linear,
    f283: Relu,
    #[layer(out = 348)]
    f284: Linear,
    f285: Relu,
    #[layer(out = 350)]
    f286: Linear,
    f287: Relu,
    #[layer(out = 352)]
    f288: Linear,
    f289: Relu,
    #[layer(out = 354)]
    f290: Linear,
    f291: Relu,
    #[layer(out = 356)]
    f292: Linear,
    f293: Relu,
    #[layer(out = 358)]
    f294: Linear,
    f295: Relu,
    #[layer(out = 360)]
    f296: Linear,
    f297: Relu,
    #[layer(out = 362)]
    f298: Linear,
    f299: Relu,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L0 {
    #[layer(out = out)]
    inner: Linear,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L1 {
    #[layer(out = out)]
    inner: L0,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L2 {
    #[layer(out = out)]
    inner: L1,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L3 {
    #[layer(out = out)]
    inner: L2,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L4 {
    #[layer(out = out)]
    inner: L3,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L5 {
    #[layer(out = out)]
    inner: L4,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L6 {
    #[layer(out = out)]
    inner: L5,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L7 {
    #[layer(out = out)]
    inner: L6,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L8 {
    #[layer(out = out)]
    inner: L7,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L9 {
    #[layer(out = out)]
    inner: L8,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L10 {
    #[layer(out = out)]
    inner: L9,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L11 {
    #[layer(out = out)]
    inner: L10,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L12 {
    #[layer(out = out)]
    inner: L11,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L13 {
    #[layer(out = out)]
    inner: L12,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L14 {
    #[layer(out = out)]
    inner: L13,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L15 {
    #[layer(out = out)]
    inner: L14,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L16 {
    #[layer(out = out)]
    inner: L15,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L17 {
    #[layer(out = out)]
    inner: L16,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L18 {
    #[layer(out = out)]
    inner: L17,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L19 {
    #[layer(out = out)]
    inner: L18,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L20 {
    #[layer(out = out)]
    inner: L19,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L21 {
    #[layer(out = out)]
    inner: L20,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L22 {
    #[layer(out = out)]
    inner: L21,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L23 {
    #[layer(out = out)]
    inner: L22,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L24 {
    #[layer(out = out)]
    inner: L23,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L25 {
    #[layer(out = out)]
    inner: L24,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L26 {
    #[layer(out = out)]
    inner: L25,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L27 {
    #[layer(out = out)]
    inner: L26,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L28 {
    #[layer(out = out)]
    inner: L27,
}

#[derive(Model)]
#[model(config(out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct L29 {
    #[layer(out = out)]
    inner: L28,
}

#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 9])]
struct Net {
    wide: Wide,
    #[layer(out = 9)]
    deep: L29,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(out[0].shape().dims(), [2, 9]);
}
