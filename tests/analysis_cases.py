"""The small dataset that the known answers of the analyses are of, and random ones."""

import numpy as np

from odm.evaluate import evaluate
from odm.tables import Dataset, Flag

CLASSES = ["cat", "dog", "bird"]
TRUTH = """1,c,1,10,10,40,40
2,d,1,100,100,50,50
3,c,2,20,20,40,40
4,b,2,120,20,20,20
5,d,3,50,50,60,60
6,d,3,150,10,30,30
7,b,4,10,10,30,30
8,c,4,100,100,80,80,1
9,c,6,30,30,50,50"""
DETECTIONS = """1,c,1,.97,10,10,40,40
2,c,1,.91,12,12,40,40
3,d,1,.63,100,100,50,30
4,d,2,.86,20,20,40,40
5,b,2,.71,130,20,20,20
6,b,2,.31,60,150,20,20
7,d,3,.83,50,50,60,48
8,b,3,.77,80,50,60,60
9,d,3,.21,60,60,60,60
10,b,4,.66,10,10,30,30
11,c,4,.55,110,110,20,20
12,c,4,.51,60,60,20,20
13,d,5,.45,0,0,50,50
14,c,6,.42,30,30,50,40
15,c,6,.35,55,30,50,50"""
LETTERS = "cdbw"


def _rows(text):
    return [line.split(",") for line in text.splitlines()]


def truth(extra=()):
    rows = [*_rows(TRUTH), *extra]
    names = [*CLASSES, "cow"] if extra else CLASSES
    crowd = [Flag.CROWD if len(r) > 7 and r[7] == "1" else 0 for r in rows]
    return Dataset.from_arrays(
        images=[str(i) for i in range(1, 7)],
        categories=names,
        image=[int(r[2]) - 1 for r in rows],
        category=[LETTERS.index(r[1]) for r in rows],
        ltwh=[[float(v) for v in r[3:7]] for r in rows],
        flags=crowd,
    )


def detections(change=lambda rows: rows):
    rows = change(_rows(DETECTIONS))
    return Dataset.from_arrays(
        images=[str(i) for i in range(1, 7)],
        categories=CLASSES,
        image=[int(r[2]) - 1 for r in rows],
        category=[LETTERS.index(r[1]) for r in rows],
        ltwh=[[float(v) for v in r[4:8]] for r in rows],
        score=[float(r[3]) for r in rows],
    )


def detections_b():
    """The same with detection 4 a cat and without detection 14."""

    def change(rows):
        return [[r[0], "c" if r[0] == "4" else r[1], *r[2:]] for r in rows if r[0] != "14"]

    return detections(change)


def cow():
    return [["10", "w", "1", "150", "150", "20", "20"]]


def fixture(protocol="coco", **options):
    return evaluate(truth(), detections(), protocol, **options).result


def other(protocol="coco", **options):
    return evaluate(truth(), detections_b(), protocol, **options).result


def random_pair(
    seed,
    *,
    n_images=40,
    n_classes=4,
    crowds=0.0,
    step=0.0,
    n_runs=1,
    sizes=(10, 90),
    ties=False,
    flags=(),
):
    """Ground truth and detections: copies of the objects jittered and reclassed at random, and noise."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 6, n_images)
    image = np.repeat(np.arange(n_images), n)
    category = rng.integers(0, n_classes, len(image))
    box = np.concatenate([rng.uniform(0, 110, (len(image), 2)), rng.uniform(*sizes, (len(image), 2))], axis=1)
    if step:
        box = np.maximum((box / step).round() * step, step)
    marks = np.where(rng.random(len(image)) < crowds, int(Flag.CROWD), 0)
    for flag in flags:
        marks |= np.where(rng.random(len(image)) < 0.2, int(flag), 0)
    names = [f"im{i:03}" for i in range(n_images)]
    classes = [f"class{k}" for k in range(n_classes)]
    gt = Dataset.from_arrays(
        images=names, categories=classes, image=image, category=category, ltwh=box, flags=marks
    )
    runs = []
    for _ in range(n_runs):
        copies = rng.integers(0, 4, len(image))
        at = np.repeat(np.arange(len(image)), copies)
        sigma = rng.choice([0.05, 0.15, 0.4], len(at))[:, None]
        near = box[at] + rng.normal(0, 1, (len(at), 4)) * sigma * box[at][:, [2, 3, 2, 3]]
        near_class = np.where(rng.random(len(at)) < 0.25, rng.integers(0, n_classes, len(at)), category[at])
        n_noise = rng.integers(0, 3, n_images)
        noise_image = np.repeat(np.arange(n_images), n_noise)
        noise = np.concatenate(
            [rng.uniform(0, 110, (len(noise_image), 2)), rng.uniform(*sizes, (len(noise_image), 2))], axis=1
        )
        found = np.concatenate([near, noise])
        found[:, 2:] = np.maximum(found[:, 2:], 1)
        if step:
            found = (found / step).round() * step
            found[:, 2:] = np.maximum(found[:, 2:], step)
        score = rng.permutation(len(found)) / len(found) + 0.0005
        if ties:
            score = (score * 10).round() / 10
        runs.append(
            Dataset.from_arrays(
                images=names,
                categories=classes,
                image=np.concatenate([image[at], noise_image]),
                category=np.concatenate([near_class, rng.integers(0, n_classes, len(noise_image))]),
                ltwh=found,
                score=score,
            )
        )
    return gt, runs


TIDE_KEYS = ("AP", "Cls", "Loc", "Both", "Dupe", "Bkg", "Miss", "FalsePos", "FalseNeg")
TIDE_RECORDED = {
    ("real", 0): (32.08578631436, 2.775801828804, 18.05647099394, 2.300329325257, 1.116595956623, 5.844231339911, 8.90356929061, 32.02312457673, 17.83087559926),
    ("real", 1): (26.06912798503, 3.80839223609, 14.11427099047, 2.153323140214, 0.8240404742169, 6.949625088239, 9.171117786994, 30.11899082685, 19.25691939134),
    ("real", 2): (23.9161049667, 6.077040870218, 9.685356074019, 2.611488633218, 1.69425557108, 4.943248591902, 9.439482432533, 31.0343900828, 20.65490940968),
    ("real", 3): (27.00723398905, 3.874436078413, 13.07493792923, 2.657133644761, 2.425124321472, 4.826821354342, 10.98897364354, 33.38880561491, 17.40458450707),
    ("real", 4): (23.80216694825, 7.461944793934, 16.74219606942, 1.974554333305, 1.748245345882, 4.467555107557, 6.728394180404, 31.89090235868, 18.38751967233),
    ("rounded", 0): (31.47788516132, 2.796192153288, 19.38376260824, 2.862577007458, 0.9443203380939, 5.007830417993, 8.373841749506, 31.64092671987, 18.25305501355),
    ("rounded", 1): (22.68581614335, 3.345567937334, 17.45598087157, 2.672564312873, 0.8938639597791, 5.889863254296, 8.311139308273, 31.27457989625, 18.68161421091),
    ("rounded", 2): (23.54465855565, 5.9934785451, 10.02428676624, 2.405641002272, 1.697206524621, 4.933647961098, 9.294085643787, 30.41573748395, 21.20674555557),
    ("rounded", 3): (26.05740686348, 2.250206421416, 13.75343376868, 3.267581803197, 2.814244619732, 4.964633453063, 10.80361834559, 33.34853373058, 17.50501865762),
    ("rounded", 4): (24.49456785778, 7.450010989203, 15.30127498148, 1.985377855268, 1.766372036398, 4.701083827298, 7.609104624972, 32.18860045905, 18.10328452185),
    ("crowds", 0): (29.88673667834, 2.504882448734, 20.08305752901, 2.526856818849, 0.7945641824868, 6.376374954584, 7.286349919629, 32.48950094542, 17.82139089667),
    ("crowds", 1): (25.5370723329, 3.846085705005, 12.22610472285, 2.166404703055, 0.6913028746785, 7.813579329644, 9.181132137418, 30.15599697403, 18.72443383098),
    ("crowds", 2): (19.69404120495, 6.639271248754, 9.111684154012, 2.230564414853, 1.655052905766, 5.016020434895, 8.20020545328, 31.79110730991, 19.25985619939),
    ("crowds", 3): (22.25182187174, 4.535700488243, 11.68856345473, 1.675205651166, 1.298007454381, 7.232548933765, 9.333050876711, 32.94619793024, 16.86222775624),
    ("crowds", 4): (22.98742445244, 7.102780692096, 15.43638847895, 2.554591876619, 0.8034643810452, 5.54922388578, 6.552280981394, 33.44821911192, 16.93097946322),
}  # fmt: skip
"""AP points by tidecv 1.0.1 for `random_pair`: real boxes, boxes rounded to 5, and 15 % crowds."""
TIDE_OPTIONS = {"real": {}, "rounded": {"step": 5}, "crowds": {"crowds": 0.15}}
LRP_RECORDED = {
    ("real", 0): ((0.823701701967, 0.243566111952, 0.521739130435, 0.45, 0.425370466321), (0.882344568317, 0.278530952127, 0.696428571429, 0.32, 0.0367694300518), (0.862752864521, 0.26990921405, 0.622222222222, 0.413793103448, 0.155940414508), (0.837964542374, 0.246819597459, 0.589743589744, 0.407407407407, 0.0626761658031)),
    ("real", 1): ((0.881900967273, 0.305136596, 0.6, 0.444444444444, 0.377549180328), (0.885164851527, 0.270329703053, 0.703703703704, 0.384615384615, 0.0879316939891), (0.821163430617, 0.216842098477, 0.538461538462, 0.5, 0.399407103825), (0.897230980823, 0.271105366378, 0.65625, 0.607142857143, 0.175363387978)),
    ("real", 2): ((0.874065798785, 0.237637080802, 0.714285714286, 0.4, 0.363245098039), (0.862654696787, 0.23818551575, 0.666666666667, 0.448275862069, 0.0740294117647), (0.886297944391, 0.229957617928, 0.555555555556, 0.714285714286, 0.667166666667), (0.897785591889, 0.258402308102, 0.717948717949, 0.541666666667, 0.0446176470588)),
    ("crowds", 0): ((0.818014660095, 0.243566111952, 0.521739130435, 0.421052631579, 0.425370466321), (0.883325725784, 0.273943593707, 0.709090909091, 0.304347826087, 0.0367694300518), (0.857714830842, 0.251000953974, 0.555555555556, 0.555555555556, 0.503090673575), (0.855986381335, 0.245206674669, 0.638888888889, 0.434782608696, 0.0626761658031)),
    ("crowds", 1): ((0.879304113497, 0.292134862133, 0.625, 0.4375, 0.377549180328), (0.898376072588, 0.289493293218, 0.714285714286, 0.391304347826, 0.0879316939891), (0.820939643523, 0.223270358172, 0.56, 0.45, 0.399407103825), (0.915295437102, 0.297650210854, 0.653846153846, 0.653846153846, 0.246401639344)),
    ("crowds", 2): ((0.901021339901, 0.233994850984, 0.783783783784, 0.428571428571, 0.363245098039), (0.868008975799, 0.245445881898, 0.674418604651, 0.44, 0.0740294117647), (0.872921231966, 0.229957617928, 0.555555555556, 0.666666666667, 0.667166666667), (0.907331423374, 0.252883795664, 0.75, 0.571428571429, 0.0446176470588)),
}  # fmt: skip
"""Optimal LRP, its three parts and its score, of each class of `random_pair`, at IoU 0.5.

Made with ``COCOeval`` of https://github.com/kemaloksuz/LRP-Error (commit ec408f3c), which runs on the masks of
pycocotools 2.0.11: ``eval["olrp"][:, 0, -1]`` and so on, under all areas and 100 detections.
"""
CALIBRATION_RECORDED = {
    ("real", 0): (0.263777027571, 0.436005863103, 0.261826314629, 0.292398463776, 0.299145185665, 0.306902249463),
    ("real", 1): (0.241549986563, 0.559698542805, 0.277895628415, 0.289618088358, 0.26893982717, 0.354032483303),
    ("real", 2): (0.257461649366, 0.599029411765, 0.302869281046, 0.225180926916, 0.251275326797, 0.341480392157),
    ("crowds", 0): (0.262046986042, 0.450305699482, 0.246465758054, 0.304067404616, 0.278272256241, 0.31510771748),
    ("crowds", 1): (0.260458744767, 0.605349726776, 0.293266145057, 0.308037271884, 0.263399640144, 0.392254263951),
    ("crowds", 2): (0.292922479374, 0.669617647059, 0.37981372549, 0.226276470588, 0.314507843137, 0.348534055728),
}  # fmt: skip
"""D-ECE and MCE of all classes, then D-ECE of each class, of the `coco` outcomes of `random_pair`.

Made with ``ECE(10, detection=True)`` and ``MCE`` of netcal 1.4.0, given the scores of what was not ignored and
whether each is a true positive at IoU 0.5; torch, which they import and do not use, was replaced by an empty
module.
"""
