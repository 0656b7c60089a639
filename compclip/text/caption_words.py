"""The words of captions of photographs by part of speech, and which of them may stand for each other.

`GROUPS`: a word of a group gives way to the others; they are of one kind, are said of the same things, and exclude each
other. Written by hand for the words that captions hold most. Plurals without a singular stand as they are.

The lists: frequent words first.
Lemmas that occur twice or more in 5,770 captions of COCO (770) and Flickr8k (5,000), as the parser reads them and
WordNet knows them. Nouns, verbs, adjectives and adverbs by their letters in WordNet; "t" has the verbs
with an object.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from compclip.text.agreement import inflect
from compclip.text.word_edits import word_set

NOUNS = """
dog man boy girl woman water child people shirt rock grass person front beach field ball street group mountain mouth
snow tree air top hat jacket pool toy camera bike wall car hand short picture background road face baby kid tennis
rope sand table side lake boat bench bicycle sign bed horse stick head city building river swing area helmet hill
ocean sidewalk ground baseball park arm dirt dress soccer cliff crowd backpack suit fence fountain cat slide wood
climber food swimming couple hair hiker stream bag bird pant pole glass player edge game motorcycle track skateboard
sunglass train adult bridge day jean lady path plate bar body outfit drink room shore board climbing coat laptop skier
trunk bowl ice leaf playground uniform back couch leash night toddler vest bus climb collar computer costume guy shoe
sky stone tent desk flag floor gear kitchen leg yard chair forest line puppy cap fire fish flower phone ski statue
vehicle banana guitar life object window bathing harness lot middle pizza stop traffic view pile race sun bikini ear
foot light tongue trail trick wave fishing kayak railing ride step balloon cellphone court creek log run trampoline
bat bathroom bear bucket bunch elephant eye jump ledge luggage net screen smile toilet walk waterfall animal book
house restaurant ring row store stroller tank blanket cart cement clothing distance equipment football glove mask
microphone nose photo play stand surf way basketball bedroom brick canoe cup dock family handstand leap mirror monitor
piece plant purse rider sheep shoulder shower slope splash structure sweater truck video winter bottle bubble display
door hay kite landscape pavement picnic pond rapid scarf standing apple art birthday boot branch cloud coffee counter
cow diving flip hind intersection number orange pair pillow pirate ramp riding skateboarder tunnel watch bicyclist
broccoli course curb end event garden gun gym item jeep metal obstacle parking pier pigtail raft railroad reflection
safety seat shop snowboarder sport sprinkler station sunset surface umbrella wire backyard bank base beam case
cigarette corner fight gate giraffe handle headphone hose jungle keyboard knife lamp look mud palm paper parachute
pose right sink skirt spoon stove suitcase sword team tire tube wheeler balance balcony band beer box bush cake candle
cell goat hiking lawn one onlooker owner rest school scooter set shopping sled surfboard swimsuit tag television
airport audience bath boardwalk bottom closeup control controller dance dinner diver duck female frisbee fur golf hood
living motorbike necklace plastic playing playpen poodle racer ribbon sculpture skull spot stage stair subway
sweatshirt tub wine cage camouflage carrot cheek close cloth construction courtyard deck direction fork gold headband
hoop hydrant lap left machine makeup meal midair monkey mountainside neon pack party patch plain platform point police
post pot rain rainbow sheet skate sneaker snowmobile sofa spray string stump style time tray valley van walkway
wrestle amusement batter boulder bread break can carpet chain chalk chase clock cowboy cross crouch cupcake dark
device devil drinking fall formation frame goal greyhound hallway hillside hockey hole image infant island jewelry
kiss lab lay leotard marker mother motorcyclist music newspaper overpass pacifier paddle pan parent pasture paw peace
peak pen pie pit pitch puddle racket refrigerator rice rug sea silver skating skeleton slipper snowball snowboard
softball straw teenager tie towel underwear unicycle vase volleyball wagon writing yellow zebra airplane attempt
autumn backpacker bay bean bend beverage blender blow boxer breed brown buffet button cabinet canvas canyon carriage
cattle centipede chest club cover cricket crocodile curve cut desert drawing dune dusk firefighter foliage foreground
friend gas glider green hamburger herd hike home jack jet juice khaki ladder land lean link lobby male mannequin match
meat money neck noodle office overall overhang painting parade pig plane plank portrait print rag rail reading
retriever rubber sale sandal saxophone scene scuba seagull seaweed seed shade skiing skyscraper sleeve snowman sock
soda spectator staircase star talk taxi teammate teen terrain toaster tooth town tricycle trot trumpet tug turn
vegetable wait wakeboard wand wear weather wool worker zoo arcade arrow artist awning bandanna barrier bathtub beard
beret block bone brush canopy collie color concrete container cot crib cyclist department diner disc dish ditch doll
dome donut dot drain dreadlock drive dust earring elevator enclosure fair father fighter fireman fist flop fly foam
fruit garbage gentleman goalie guitarist half hall heart help hip hold hut kick knee lamb laugh league lemon liberty
lizard lobster logo lounge motion mouse museum nap order pajama parachutist passenger patio pharmacy pickup pink
pitcher place polka pony power pug racetrack rafter rifle robot roller runner shelf shoreline shot size space squirt
stall storm strap stripe summer sunflower swim swimmer telephone terrier thing tile tool tractor transit treat try
type umpire volley walking watering waterway wheel work advertisement aid ankle antler apartment appliance arch
asphalt attire auditorium backdrop baggage ballet barrel basket bell bin bite black bleacher blower blue bluff boarder
bookcase bookstore bracelet brochure brother brunette business butt camp campfire camping campsite carnival carousel
cartwheel catch catcher cave check chicken chocolate church coaster combat companion cooking cord corn corridor
country covering craft crosswalk current cushion dachshund daughter dessert doorbell down draft driver droplet
earphone equestrian evening exhibit fabric fairy faucet fighting figure finger five flannel float foal fun garment
gaze gesture golfer goodbye gravel grocery gymnasium gymnast handbag handlebar handrail hang heel height highway
hilltop hound hurdle injury ink instrument jersey joy jumping kitty kneel landing lane latte lead lens magician map
market marking maroon mat moment moon morning move mug muzzle name nightclub ninja nutcracker opponent parasail part
pathway pearl photograph pick pigeon pine pipe playhouse plaza pop porch position presentation press profile pumpkin
punk receiver reindeer renaissance resort rink riverbank rod rose route saber sample sauce scenery seating section see
self setting show shrub singing skater snowstorm soap sort source speaker speed spelunker spout spring stare starting
stomach stool stretch strip student summit surfer tail tarp tattoo tee terminal tin transportation trash trip turkey
turquoise tussle uphill utility vegetation vulture wade waist war watercraft wilderness wind wing wintertime woodland
zip
"""
VERBS = """
stand sit wear play run walk jump hold look rid climb catch smile watch have pose dress take cover carry lay hang pull
get make swing fly eat overlook try swim surround lie wait face shake show drive slide throw leap use bite talk fish
float splash cross gather push rest set laugh prepare chase drink fall hike perform point color read ride enjoy fill
kick lean paddle paint travel attach fight park reach stick attempt raise retrieve come help hit light line sniff
spray give kayak put race sing ski cut kiss star crawl scale stop tie turn wad wrestle cast dive feed hug relax say
seat see serve sleep touch wave balance chew close follow graze lift move open pause pet shin aim approach begin
bounce clean descend land place pour practice raft step stuff top check decorate dig drag draw examine fence flip grab
hand kneel lead leash match shape skate squat squeeze trot work bend bike break camp cook crochet crouch cycle display
dribble growl hide lick pass pick pierce roll row sell skateboard smoke spot squirt strike strip surf suspend toss tow
write appear ascend ask beg blow bubble bundle checker contain drill dry embrace feature fetch find flower greet guide
head include leave load miss neck parachute participate pedal perch return ring rise seem sign signal sink snarl snow
snowboard soak strap stretch submerge tile wet wrap assist attack back backpack bark bat bath battle beat bicycle bind
block bring brush celebrate chat clap clear cling clothe collect compete cool costume crash crock crowd darken emerge
extinguish fade feather fold fork gallop gaze grasp happen haul hiss hop huddle interact jack jog join learn maneuver
march mark mount navigate observe offer peek peer pop press print prohibit project prop propel punch rappel ready
reflect replace rock round share shave shoot shop shower sip speak spin sprawl steer strain strew suck support train
traverse tread tuck view war wash whack wind
"""
ADJECTIVES = """
black white young brown red blue little small large green yellow other pink orange grassy wooden big rocky grey
several snowy long old colored tan blond many tall high purple open colorful dark striped blonde bright gray sandy
asian light ready wet haired shallow outdoor sunny busy concrete full dry golden plastic different about lone muddy
rough beautiful elderly empty female few male paved inflatable steep dirty same public frozen low various american
close cloudy cold fallen fluffy furry heavy hot next outside short wild deep foggy huge modern warm artificial back
bald beige clear curly flat homeless left lush rural scenic skinny teenage african alone asleep bearded cross crowded
electronic fair floral german indoor leafy martial medieval professional remote right shaggy sheer third urban
athletic blurry costumed curved electric fashioned fresh front happy headed lean mid opposite puffy reflective rolling
skimpy smooth teal thick thin topless tropical wide active airborne arched assorted barbed bare barefoot barren broken
calm clean current double elaborate fake flip formal frightened funny great half helmeted homemade human husky icy
inflated interesting jagged like medium messy middle miniature modest mottled murky muslim naked narrow nearby new off
overcast padded perfect real second sharp shaved silly silver sized skinned snoopy spiral spotted strange streaked
threatening tight tiny tired top uncut underground unseen visible wheeled
"""
ADVERBS = """
next outside together outdoors very away down around high back nearby below behind brightly just all inside playfully
partially almost along only quickly wide alone also backwards barefoot carefully fast forward long out recently still
too above alike close closely deep downhill first formally freshly half hard heavily identically onstage right
sideways there
"""
WORDS = {"n": word_set(NOUNS), "v": word_set(VERBS), "a": word_set(ADJECTIVES), "r": word_set(ADVERBS)}

GROUPS = {
    "n": """
man woman; boy girl; guy lady; lady gentleman; child adult; kid adult; baby adult; toddler adult; father mother; son
daughter; brother sister; people dogs horses cows; person dog horse statue; couple group; player spectator; dog cat
horse cow goat; cat dog rabbit bird; puppy kitten; horse cow elephant camel zebra; cow horse sheep pig; bird
squirrel cat; elephant giraffe zebra bear; bear elephant lion; giraffe elephant zebra; zebra giraffe cow; monkey cat
bear; duck dog swan; goat sheep cow; car truck bus van tractor; bus car truck train; truck car bus; train bus truck;
van bus tractor; bike car horse boat; bicycle car motorcycle skateboard; motorcycle bicycle car tractor; boat car
bus bicycle; kayak sailboat surfboard; canoe sailboat surfboard; skateboard bicycle scooter surfboard; surfboard
skateboard kayak; snowboard skateboard surfboard; sled bicycle wagon; scooter skateboard bicycle; wagon sled
wheelbarrow; cart boat truck; bench chair couch table; chair bench couch stool; couch bench bed table; bed couch
table; table bench bed couch; desk bed couch; sofa bench bed table; stool bench bed; shirt jacket sweater vest coat;
jacket shirt sweater vest dress; sweater shirt vest jacket; coat shirt vest dress; vest shirt coat sweater; dress
jacket sweater suit; skirt dress coat; suit dress costume robe; uniform costume dress; costume uniform suit; bikini
dress coat; swimsuit coat dress; wetsuit dress coat; hat helmet headband scarf; cap helmet headband scarf; helmet
hat scarf; scarf hat tie; tie scarf; headband helmet scarf; glove shoe hat; shoe glove hat; boot sandal sneaker;
sneaker boot sandal; sandal boot sneaker; apron dress coat; backpack suitcase basket; bag basket box bottle; purse
basket suitcase; suitcase backpack basket; box bag basket bottle; basket box bag bucket; umbrella flag kite;
mountain beach forest field; beach mountain forest field; hill beach road; cliff tree roof; forest beach desert
field; field forest beach street; desert forest field; park street beach; lake field forest; river street field;
ocean field forest; pool field street; pond street field; stream street; creek street; sea field; snow sand grass
mud; sand snow grass mud; grass snow sand mud; mud snow sand grass; dirt snow grass sand; water snow sand mud; ice
sand grass mud; rock tree log bench; boulder tree log; log rock fence; tree rock pole building; bush rock bench;
leaf flower stone; flower leaf stone; street field beach; road river field; sidewalk field beach; path river street;
trail river street; lane river beach; valley lake desert; track field river; bridge boat roof; fence bench rock
tree; wall tree fence; building tree tent; house tree tent boat; church house barn; store church barn; restaurant
library church; tent car boat house; roof bridge boat; porch roof street; yard street forest; garden street beach;
playground street beach; kitchen bathroom bedroom; bathroom kitchen bedroom; bedroom kitchen bathroom; room street
field; hallway kitchen garden; city forest desert; town forest desert; hand foot head; foot hand head; head hand
foot; mouth ear eye; nose ear eye; ear nose mouth; eye ear mouth; arm leg head; leg arm head; face hand foot; back
head; tongue ear nose; tail ear leg; neck arm leg; knee elbow; shoulder knee; ball stick frisbee bone; frisbee ball
stick; stick ball frisbee bone; toy stick bone; rope stick ball; bat racket stick; racket bat stick; kite balloon
ball; balloon kite ball; tennis soccer baseball basketball golf; soccer tennis baseball hockey; baseball soccer
tennis basketball; hockey tennis golf soccer; golf tennis soccer hockey; camera phone book cup; phone camera book
cup; cellphone camera book; laptop book television; computer book television; television laptop book; book newspaper
camera cup; newspaper book cup; microphone camera phone; guitar drum violin trumpet; drum guitar violin; piano
guitar drum; pizza sandwich cake salad; sandwich pizza cake salad; cake pizza sandwich; salad soup cake pizza; soup
salad cake; burger pizza cake; apple banana orange; banana apple orange; orange banana apple; carrot banana apple;
broccoli carrot rice; rice broccoli bread; bread rice cheese; cheese bread meat; meat rice cheese; beer coffee milk;
coffee beer milk; wine milk coffee; tea beer milk; milk beer coffee; food paper trash; plate bowl; bowl plate; cup
plate bowl; glass cup bottle; bottle cup can; fork knife spoon; knife fork spoon; spoon fork knife; sink bathtub
stove; toilet bathtub sink; bathtub sink toilet; stove sink; oven sink refrigerator; refrigerator stove sink; lamp
mirror clock; mirror clock lamp; clock mirror lamp; window door wall; door window wall; floor table bed; rug bed
table; carpet bed table; blanket pillow towel; pillow blanket towel; towel blanket pillow; flag kite umbrella;
candle flower balloon; sign flag clock; statue fountain tree; fountain statue tree; pole tree wall; ladder rope
tree; swing slide trampoline; slide swing trampoline; trampoline slide swing; ramp slide staircase; snowboarder
skier surfer; skier surfer skateboarder; surfer skier skateboarder; skateboarder surfer skier; climber swimmer
surfer; hiker swimmer skier; biker swimmer surfer; cyclist swimmer skier; rider swimmer; top bottom; bottom top;
front back; left right; right left; sunset sunrise; night day; day night; background foreground; foreground
background; morning evening; winter summer; summer winter; sunglasses headphones; goggles headphones; glasses
headphones earrings; jeans shorts pajamas; shorts jeans pants; pants shorts pajamas; overalls shorts pajamas;
pajamas jeans shorts; headphones sunglasses goggles; trunks jeans; leggings shorts; clothes toys tools; leash chain
rope; ground roof bed; air water; sky water; shore roof; bar kitchen garden; court beach street; ledge bench bed;
stage roof beach; sprinkler tree fence; hair skin fur; fur hair; wood metal plastic; metal wood plastic; plastic
wood metal; brick wood metal; couple trio; crowd pair; outfit hat; collar hat sweater; mask hat; statue tree; flower
leaf; pole tree; woman man; girl boy; star moon heart; moon star sun; heart star moon; cloud star moon; anchor wheel
star; castle house tower; fortress house tower; king queen; queen king; snowman statue""",
    "v": """
stand sit lie; sit stand lie; lie stand sit; kneel stand sit; run walk crawl; walk run crawl; jump sit crawl; leap
crawl walk; climb descend; swim sit sleep; fly land; sleep play sit; play sleep rest; rest play run; smile cry
frown; laugh cry; cry laugh smile; talk sing sleep; sing talk sleep; dance sleep sit; wave clap; hang fall; fall
stand; pose sleep run; surf ski skate; ski surf skate; skate ski surf; skateboard ski surf; paddle sail; splash
sleep sit; hike swim ski; dig swim sleep; bark sleep; growl sleep; crawl run jump; lean sit; dive swim walk; fish
swim sleep; wait run dance; fight talk dance; wrestle sleep dance; float swim dive; race walk rest; relax run fight;
perform rest; ride walk; wade run dive; gallop sleep rest; graze sleep run; yawn bark sleep""",
    "t": """
wear carry hold; hold drop throw kick; carry drop throw kick; catch throw drop kick; throw catch drop; kick catch
throw; eat drop throw smell; drink pour spill; pour drink spill; ride push pull wash; drive push wash; push pull;
pull push; chase follow lead; follow chase lead; lead follow chase; hug push kick; kiss push kick; read write tear;
write read tear; cut paint wash; paint wash cut; wash paint cut; cook eat wash; open close; close open; enter leave;
leave enter; lift drop lower; raise lower; lower raise; lick bite sniff; bite lick sniff; sniff bite lick; chew bury
drop; fetch bury drop; watch ignore; touch throw kick; prepare eat; serve eat; climb descend; buy sell; sell buy;
fill empty; feed wash pet; pet feed wash; pick drop throw; build destroy; draw paint tear; repair destroy; brush
feed chase; cross leave; knit wash tear; juggle eat drop; grab drop throw; push pull; walk carry chase; clean paint""",
    "a": """
black white brown red blue green yellow; white black brown red blue green yellow; brown black white red blue green;
red black white blue green yellow orange pink purple; blue black white red green yellow orange pink purple; green
black white red blue yellow orange pink purple; yellow black white red blue green pink purple; orange black white
blue green pink purple; pink black white blue green yellow orange; purple black white red green yellow orange; gray
red blue green yellow orange pink; grey red blue green yellow orange pink; tan black white red blue green; beige
black red blue green; blond gray red; blonde gray red; teal red yellow orange; maroon blue green yellow; turquoise
red yellow orange; golden black red; colorful gray white black; bright dark; little big tall large; small big large
huge; big small little tiny; large small little tiny; huge small little tiny; tiny big large huge; young old
elderly; old new; elderly young; new old; tall short; short tall long; long short; narrow wide; wide narrow; thick
thin; thin thick; deep shallow; shallow deep; high low; low high; heavy light; wet dry; dry wet; dirty clean; clean
dirty; muddy dry clean; open closed; closed open; full empty; empty full; hot cold; cold hot; warm cold; dark
bright; sunny cloudy rainy; cloudy sunny; foggy sunny; rainy sunny; indoor outdoor; outdoor indoor; male female;
female male; steep flat; flat steep; rough smooth; smooth rough; happy sad angry; sad happy; beautiful ugly; quiet
busy; busy quiet empty; rocky grassy sandy snowy; grassy sandy rocky snowy muddy; sandy grassy rocky snowy; snowy
grassy sandy; wooden metal plastic stone; plastic wooden metal; metal wooden plastic; concrete wooden; striped plain
checkered; plaid striped plain; floral striped plain; round square; square round; curly straight; straight curly;
left right; right left; front back; upper lower; lower upper; top bottom; bottom top; asleep awake; awake asleep;
alone together; calm rough; crowded empty; modern ancient; fresh rotten; raw cooked; fluffy smooth; furry hairless;
bald hairy; bearded bald; leafy bare; inflatable wooden; electric wooden; paved muddy""",
    "r": """
outside inside; inside outside; outdoors indoors; indoors outdoors; together separately;
up down; down up; quickly slowly; slowly quickly""",
}  # fmt: skip
SKIPPED = word_set(  # what says how much or where in a picture, and what fits no place but its own
    "other several many few same such more most various different own certain first next last haired colored "
    "about ready all piece pieces set way end middle edge lot lots bunch row line part type kind lap life view "
    "distance area look sheep fish deer swimming fishing side cream ice break stand order body event race turn "
    "climb climbs photo photos structure structures equipment machine machines sheet sheets stone stones close aged"
)


@functools.cache
def groups() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, by part of speech, the words that may stand for each word of the groups."""
    words_by_pos: dict[str, dict[str, tuple[str, ...]]] = {}
    for pos_letter, text in GROUPS.items():
        words_by_pos[pos_letter] = {}
        for first, *others in map(str.split, text.split(";")):
            words_by_pos[pos_letter][first] = tuple(dict.fromkeys((*words_by_pos[pos_letter].get(first, ()), *others)))
    return words_by_pos


def inflect_group(
    word: str, lemma: str, key: str, tag: str, irregular: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the words of a word's group, inflected for a tag; those of a plural like "glasses" as they stand."""
    if tag == "NNS" and word in groups()[key]:
        return groups()[key][word]
    forms = [inflect(name, tag, irregular) for name in groups()[key].get(lemma, ())]
    return tuple(form for form in forms if form)
